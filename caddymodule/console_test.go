package caddymodule_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
)

// consoleRoles are the roles, the least first.
var consoleRoles = []string{"viewer", "editor", "admin"}

// startConsoleSite starts a gateway with a console and two workspaces, each with a key of each
// role. more are files beside those of the usual workspace.
func startConsoleSite(t *testing.T, more ...map[string]string) *gateway {
	t.Helper()
	g, _ := consoleSite(t, "edit files", more...)
	return g
}

// consoleSite does the same with options of the console, and returns the Caddyfile.
func consoleSite(t *testing.T, console string, more ...map[string]string) (*gateway, string) {
	t.Helper()
	files := map[string]string{"other/remoteconfigs/secret.yaml": "type: string\ndefault: theirs alone\n"}
	for _, set := range append(more, workspace) {
		maps.Copy(files, set)
	}
	g := startGateway(t, files, options)
	g.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	text := g.consoleSite(console)
	if err := g.loadText(text); err != nil {
		t.Fatal(err)
	}
	return g, text
}

// consoleSite returns the configuration of a gateway with a console.
func (g *gateway) consoleSite(console string) string {
	var keys [2]strings.Builder
	for i := range keys {
		for _, role := range consoleRoles {
			name := []string{"our", "their"}[i] + "_" + role
			g.t.Setenv(name, consoleKey(name))
			keys[i].WriteString("api_key " + name + " {env." + name + "} {\nrole " + role + "\n}\n")
		}
	}
	return strings.Replace(g.caddyfile(options+"log content\n"+keys[0].String()+`
		workspace other {
			definitions {dir}/other
			store sqlite {dir}/data/cadenza.db
			`+keys[1].String()+`
		}
	`), "\tcadenza\n}\n", "\tcadenza_console {\n\t\tinsecure_http\n\t\t"+console+"\n\t}\n\tcadenza\n}\n", 1)
}

func consoleKey(name string) string { return "a-key-that-is-called-" + name }

var dataElements = regexp.MustCompile("</?data[^>]*>")

// shownText returns a page without the elements that have numbers for programs.
func shownText(page string) string { return dataElements.ReplaceAllString(page, "") }

// signIn returns the headers of requests in the session of a key.
func (g *gateway) signIn(name string) http.Header {
	g.t.Helper()
	response, err := g.send(g.t.Context(), http.MethodPost, "/console/sign-in", url.Values{"key": {consoleKey(name)}}.Encode(), http.Header{"Content-Type": {"application/x-www-form-urlencoded"}})
	if err != nil {
		g.t.Fatal(err)
	}
	defer response.Body.Close()
	for _, cookie := range response.Cookies() {
		return http.Header{"Cookie": {cookie.Name + "=" + cookie.Value}}
	}
	g.t.Fatalf("%s can't sign in: %d", name, response.StatusCode)
	return nil
}

// stored waits until a trace is in the store.
func stored(g *gateway, id string) {
	g.t.Helper()
	eventually(g.t, "the trace is stored", func() bool {
		_, found := g.trace("data/cadenza.db", id)
		return found
	})
}

// TestConsoleRoles asks for each route of the API under each role, in one's own workspace
// and in another.
func TestConsoleRoles(t *testing.T) {
	g, _ := withKeysFile(t)
	id := g.post("/v1/remoteconfigs", `{"keys":["checkout"],"context":{"plan":"pro"},"metadata":{"user":"u-1"}}`).ok(t).header.Get("Cadenza-Trace-Id")
	stored(g, id)
	type call struct {
		method, query, body string
		least               string // role
		status              int    // for those who may; 0: 200
	}
	calls := map[string][]call{
		"status":       {{"GET", "", "", "viewer", 0}},
		"definitions":  {{"GET", "", "", "viewer", 0}},
		"revisions":    {{"GET", "", "", "viewer", 0}},
		"revisions/":   {{"GET", "", "", "viewer", 0}, {"POST", "dry_run=true", `{"base":""}`, "admin", 400}},
		"targets":      {{"GET", "", "", "viewer", 0}},
		"pull":         {{"POST", "", "", "editor", 409}},
		"limits":       {{"GET", "subject=x", "", "viewer", 0}, {"GET", "top=3", "", "viewer", 0}},
		"evaluate":     {{"POST", "", `{"key":"checkout"}`, "viewer", 0}},
		"edit":         {{"GET", "file=context.yaml", "", "viewer", 0}, {"POST", "", `{"action":"text","file":"remoteconfigs/no.yaml","base":"x"}`, "editor", 409}},
		"words":        {{"GET", "file=prompts/x.yaml", "", "viewer", 0}},
		"plan":         {{"POST", "", `{"action":"text","file":"remoteconfigs/new.yaml","text":"type: boolean\ndefault: true\n"}`, "editor", 0}},
		"review":       {{"POST", "", `{"action":"text","file":"remoteconfigs/new.yaml","text":"type: boolean\ndefault: true\n"}`, "editor", 0}},
		"reports":      {{"POST", "", `{"unit":{"plan":"pro"},"values":{"paid":1},"event_id":"e-1"}`, "editor", 0}},
		"traces":       {{"GET", "", "", "viewer", 0}, {"DELETE", "metadata.user=nobody", "", "admin", 0}},
		"traces/":      {{"GET", "", "", "viewer", 0}, {"POST", "", `{"label":"wrong tone"}`, "editor", 0}},
		"stats":        {{"GET", "", "", "viewer", 0}},
		"costs":        {{"GET", "", "", "viewer", 0}},
		"refused":      {{"GET", "", "", "viewer", 0}},
		"export":       {{"GET", "", "", "admin", 0}},
		"peaks":        {{"GET", "subject=x", "", "viewer", 0}},
		"play":         {{"GET", "", "", "editor", 0}, {"POST", "", `{"endpoint":"chat","target":"canned","variables":{"question":"Why?"}}`, "editor", 0}},
		"audit":        {{"GET", "", "", "admin", 0}},
		"find":         {{"GET", "id=01990001", "", "viewer", 0}},
		"definitions/": {{"GET", "", "", "viewer", 0}},
		"compare":      {{"GET", "from=REVISION&to=REVISION", "", "viewer", 0}},
		"models":       {{"GET", "since=1d", "", "viewer", 0}},
		"keys":         {{"GET", "", "", "viewer", 0}, {"POST", "", `{"name":"another"}`, "admin", 0}},
		"experiments":  {{"GET", "", "", "viewer", 0}},
		"experiments/": {{"GET", "", "", "viewer", 404}},
		"rollouts":     {{"GET", "", "", "viewer", 0}},
		"rollouts/":    {{"GET", "", "", "viewer", 404}, {"POST", "", `{"do":"hold"}`, "editor", 404}},
		"keys/":        {{"DELETE", "", "", "admin", 0}},
	}
	sessions := make(map[string]http.Header)
	for _, role := range consoleRoles {
		sessions[role] = g.signIn("our_" + role)
	}
	var status struct {
		Workspaces map[string]struct {
			Definitions struct{ Revision string }
		}
	}
	if err := json.Unmarshal(g.do("GET", "/console/api/status", "", sessions["viewer"]).ok(t).body, &status); err != nil {
		t.Fatal(err)
	}
	if len(status.Workspaces) != 1 {
		t.Fatalf("a visitor sees %d workspaces", len(status.Workspaces))
	}
	revision := status.Workspaces["default"].Definitions.Revision
	for _, route := range new(adminapi.API).Routes() {
		path := strings.TrimPrefix(route.Pattern, "/cadenza/")
		if len(calls[path]) == 0 {
			t.Errorf("no role is tested for %s", path)
		}
		for _, c := range calls[path] {
			asked := "/console/api/" + path
			switch path {
			case "traces/":
				asked += id
				if c.method == "POST" {
					asked += "/label"
				}
			case "keys/":
				asked += "filed"
			case "revisions/":
				asked += revision
			case "definitions/":
				asked += "remoteconfig/checkout"
			}
			c.query = strings.ReplaceAll(c.query, "REVISION", revision)
			allowed := false
			for _, role := range consoleRoles {
				allowed = allowed || role == c.least
				want := http.StatusForbidden
				if allowed {
					want = cmp.Or(c.status, http.StatusOK)
				}
				if a := g.do(c.method, asked+"?"+c.query, c.body, sessions[role]); a.status != want {
					t.Errorf("%s %s as %s: %d, want %d: %s", c.method, asked, role, a.status, want, a.body)
				}
				if !allowed {
					continue
				}
				elsewhere, body := "workspace=other&"+c.query, c.body
				if body != "" && path != "traces/" && path != "rollouts/" && path != "reports" {
					elsewhere, body = "", `{"workspace":"other",`+body[1:]
				}
				if a := g.do(c.method, asked+"?"+elsewhere, body, sessions[role]); a.status != http.StatusNotFound {
					t.Errorf("%s %s of another workspace as %s: %d %s", c.method, asked, role, a.status, a.body)
				}
			}
			if a := g.do(c.method, asked+"?"+c.query, c.body, nil); a.status != http.StatusUnauthorized {
				t.Errorf("%s %s without a session: %d", c.method, asked, a.status)
			}
		}
	}
	theirs := g.signIn("their_admin")
	if a := g.do("GET", "/console/api/traces/"+id, "", theirs); a.status != http.StatusNotFound {
		t.Errorf("our trace by their key: %d", a.status)
	}
	if a := g.do("GET", "/console/traces/"+id, "", theirs); a.status != http.StatusNotFound || strings.Contains(string(a.body), "u-1") {
		t.Errorf("the page of our trace by their key: %d %s", a.status, a.body)
	}
	if a := g.do("PUT", "/console/api/traces", "", sessions["admin"]); a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != "GET, HEAD, DELETE" {
		t.Errorf("PUT: %d %v", a.status, a.header)
	}
	if a := g.do("GET", "/console/api/nothing", "", sessions["admin"]); a.status != http.StatusNotFound {
		t.Errorf("an unknown path: %d", a.status)
	}
}

// TestConsoleHidesContent has a viewer and an editor look at what a model was asked.
func TestConsoleHidesContent(t *testing.T) {
	g := startConsoleSite(t)
	id := g.post("/v1/prompts", `{"keys":["reply"],"variables":{"question":"Is this private?"}}`).ok(t).header.Get("Cadenza-Trace-Id")
	stored(g, id)
	g.post("/v1/metrics", `{"trace_id":"`+id+`","score":20,"llm_response":"This is private, too."}`).ok(t)
	for _, role := range consoleRoles {
		session := g.signIn("our_" + role)
		for _, path := range []string{"/console/traces/", "/console/api/traces/"} {
			page := string(g.do("GET", path+id, "", session).ok(t).body)
			for _, text := range []string{"Is this private?", "This is private, too."} {
				if shown := strings.Contains(page, text); shown != (role != "viewer") {
					t.Errorf("%s at %s shows %q: %t", role, path, text, shown)
				}
			}
			if !strings.Contains(page, "reply") || !strings.Contains(page, "20") {
				t.Errorf("%s at %s lacks the trace: %s", role, path, page)
			}
		}
	}
}

// TestConsoleLinks opens the page at the root of a site with a console, and without.
func TestConsoleLinks(t *testing.T) {
	browser := http.Header{"Accept": {"text/html"}}
	g := startConsoleSite(t)
	if page := g.do("GET", "/", "", browser).ok(t).body; !strings.Contains(string(page), `href="/console/"`) {
		t.Errorf("no link to the console: %s", page)
	}
	if err := g.load(options); err != nil {
		t.Fatal(err)
	}
	if page := g.do("GET", "/", "", browser).ok(t).body; strings.Contains(string(page), "/console/") {
		t.Errorf("a link to no console: %s", page)
	}
}

// TestConsoleLabels gives a trace a label and a score by the form of its page, and finds it
// by them. A viewer can't.
func TestConsoleLabels(t *testing.T) {
	g := startConsoleSite(t)
	id := g.post("/v1/prompts", `{"keys":["reply"],"variables":{"question":"Is this private?"}}`).ok(t).header.Get("Cadenza-Trace-Id")
	stored(g, id)
	label := func(role, form string) answer {
		header := g.signIn("our_" + role)
		header.Set("Content-Type", "application/x-www-form-urlencoded")
		return g.do("POST", "/console/traces/"+id, form, header)
	}
	for form, want := range map[string]string{
		"label=&note=n":                     "a label or a score is missing",
		"score=much":                        "score must be a number",
		"score=101":                         "from 0 to 100",
		"label=" + strings.Repeat("x", 101): "may have 100 bytes",
	} {
		if a := label("editor", form); a.status != http.StatusBadRequest || !strings.Contains(string(a.body), want) {
			t.Errorf("%s: %d %s", form, a.status, a.body)
		}
	}
	if a := label("viewer", "label=mine"); a.status != http.StatusForbidden {
		t.Errorf("a viewer's label: %d", a.status)
	}
	if a := label("editor", "label=wrong+tone&score=10&note=%3Cb%3E"); a.status != http.StatusSeeOther || a.header.Get("Location") != "/console/traces/"+id {
		t.Fatalf("an editor's label: %d %s", a.status, a.body)
	}
	session := g.signIn("our_editor")
	if page := string(g.do("GET", "/console/traces/"+id, "", session).ok(t).body); !strings.Contains(page, "by console:our_editor") || !strings.Contains(page, "wrong tone") {
		t.Errorf("the trace lacks its label: %s", page)
	}
	if page := string(g.do("GET", "/console/traces/"+id+"?prove", "", session).ok(t).body); !strings.Contains(page, "The definitions decide what was recorded") || !strings.Contains(page, "caddy cadenza prove "+id) {
		t.Errorf("no proof: %s", page)
	}
	if a := g.do("GET", "/console/api/traces/"+id+"?prove=1", "", session); a.status != http.StatusBadRequest {
		t.Errorf("prove=1: %d", a.status)
	}
	for query, found := range map[string]bool{"label=wrong+tone": true, "label=wrong+tone&score=..10": true, "label=tone": false, "score=11..": false} {
		var list struct{ Traces []json.RawMessage }
		if err := json.Unmarshal(g.do("GET", "/console/api/traces?"+query, "", session).ok(t).body, &list); err != nil || (len(list.Traces) == 1) != found {
			t.Errorf("%s: %d traces, %v", query, len(list.Traces), err)
		}
	}
	for _, sort := range []string{"", "score", "cost"} {
		lines := string(g.do("GET", "/console/api/traces?format=jsonl&sort="+sort, "", session).ok(t).body)
		if found := strings.Contains(lines, `"Is this private?"`) && strings.Contains(lines, `"label":"wrong tone"`) && strings.Count(lines, "\n") == 1; found != (sort != "cost") {
			t.Errorf("lines by %q: %s", sort, lines)
		}
	}
	if a := g.do("GET", "/console/api/traces?format=jsonl", "", g.signIn("our_viewer")); a.status != http.StatusForbidden {
		t.Errorf("a viewer's lines: %d %s", a.status, a.body)
	}
}

// TestConsolePages opens each page, and pages with a mistake in their address.
func TestConsolePages(t *testing.T) {
	g := startConsoleSite(t)
	configs := g.post("/v1/remoteconfigs", `{"keys":["checkout"],"context":{"plan":"pro","tags":["x"]},"metadata":{"conversation_id":"c-1 /?","request_id":"r-1"}}`).ok(t)
	id, decision := configs.header.Get("Cadenza-Trace-Id"), configs.header.Get("Cadenza-Decision-Id")
	g.post("/v1/endpoints", `{"key":"nothing"}`)
	session := g.signIn("our_viewer")
	for _, test := range []struct {
		path   string
		status int
		shows  string
	}{
		{"", 200, "caddy cadenza status"},
		{"", 200, `<td class="n figure"><data value="1">1</data></td>`}, // requests of the last hour
		{"?last=day", 200, "by the hour"},
		{"traces", 200, id[:18]},
		{"traces?key=checkout&kind=remoteconfig&since=1h&metadata=&sort=", 200, id[:18]},
		{"traces?csv=1", 200, "trace,time,key"},
		{"traces?csv=1", 200, "\n" + id + ","},
		{"traces?key=nothing", 200, "No trace passes these filters."},
		{"traces?since=yesterday", 200, "since must be a time"},
		{"traces?metadata=user%3Du-1", 200, "caddy cadenza traces --since 24h --metadata user=u-1"},
		{"traces?metadata.user=u-1", 200, "caddy cadenza traces --since 24h --metadata user=u-1"},
		{"traces?field.tags=%5B%22x%22%5D", 200, id[:18]},
		{"traces?field.tags=%5B%22y%22%5D", 200, "No trace passes these filters."},
		{"traces?code=upstream_error", 200, "No trace passes these filters."},
		{"traces?fallback=true&attempts=2", 200, "caddy cadenza traces --since 24h --attempts 2 --fallback"},
		{"traces?attempts=x", 200, "attempts must be the number"},
		{"traces?version=x&state=ended&finish_reason=stop&revision=x", 200, "No trace passes these filters."},
		{"traces?decision=" + decision, 200, id[:18]},
		{"traces?colour=red", 200, "there is no parameter &#34;colour&#34;"},
		{"traces?kee=checkout", 200, "there is no parameter &#34;kee&#34;"},
		{"refused?colour=red", 200, "there is no parameter &#34;colour&#34;"},
		{"traces?sort=score", 200, "--sort score"},
		{"traces?since=1h", 200, `href="/console/traces?since=1h&amp;sort=cost"`},
		{"traces?sort=latency&since=1h&key=nothing", 200, "took 10 ms or more"},
		{"traces?sort=size", 200, "sort must be time"},
		{"traces/" + id, 200, "caddy cadenza traces " + id},
		{"traces/" + decision, 200, id[:18]},
		{"traces/" + id[:13], 200, id},
		{"traces/01a2220a-abf8-85dc-834a-b077b92a0c8d", 404, "there is no trace"},
		{"traces/x", 400, "is no trace id"},
		{"traces/" + id + "?prove", 403, "this needs the role editor"},
		{"find?id=" + id, 303, "/console/traces/" + id},
		{"find?id=" + id[:8], 200, "decision <a href=\"/console/traces/" + decision},
		{"find?id=chatcmpl-" + strings.ReplaceAll(id, "-", ""), 303, "/console/traces/" + id},
		{"find?id=msg_" + strings.ReplaceAll(id, "-", "") + "_0", 303, "/console/traces/" + id},
		{"traces/resp_" + strings.ReplaceAll(id, "-", ""), 200, "caddy cadenza traces"},
		{"find?id=c-1+/%3F", 303, "/console/conversations/c-1%20%2F%3F"},
		{"find?id=r-1", 303, "metadata=request_id%3Dr-1"},
		{"find?id=u%3D1", 303, "/console/traces?metadata=u%3D1&amp;since="},
		{"find?id=plan%3Dpro", 303, "/console/traces?field=plan%3Dpro&amp;since="},
		{"find?id=", 200, "finds the id of a trace"},
		{"find?id=nothing", 200, "looked for as the id of a conversation, chain, request"},
		{"conversations/c-1%20%2F%3F", 200, id[:8]},
		{"conversations/", 303, "/console/find"},
		{"conversations/none", 200, "names this conversation"},
		{"traces?field=tags%3D%5B%22x%22%5D&since=", 200, id[:18]},
		{"traces?field=tags%3D%5B%22x%22%5D&row=default&since=", 200, "--row default --field"},
		{"traces?field=tags%3D%5B%22y%22%5D&since=", 200, "No trace passes"},
		{"traces?label=none", 200, "No trace passes these filters."},
		{"refused", 200, "unknown_endpoint"},
		{"refused?code=unknown_endpoint", 200, `href="/console/refused?api_key=test&amp;code=unknown_endpoint"`},
		{"refused?limit=fair&subject=", 200, "Nothing was refused since then with limit fair"},
		{"refused?since=x", 200, "since must be a time"},
		{"definitions", 200, "checkout"},
		{"try", 200, "Without a context the defaults answer."},
		{"try?field.plan=pro&field.tags=a,+b", 200, "{&#34;plan&#34;:&#34;pro&#34;,&#34;tags&#34;:[&#34;a&#34;,&#34;b&#34;]}"},
		{"try?field.plan=prp", 200, "context.plan must be"},
		{"try?field.plann=pro", 200, "did you mean &#34;plan&#34;"},
		{"try?field.plan=pro", 200, "/v1/decisions -H &#34;Authorization: Bearer $CADENZA_API_KEY&#34; -d &#39;{&#34;context&#34;:{&#34;plan&#34;:&#34;pro&#34;}"},
		{"edit", 303, "/console/definitions"},
		{"try?at=someday", 200, "at must be a time"},
		{"revisions", 200, "served"},
		{"costs", 200, "There were no calls"},
		{"costs?by=nothing", 200, "costs are by"},
		{"costs?why=total", 200, "attempts that answered"},
		{"costs?csv=1", 200, "day,cost"},
		{"definitions?csv=1", 200, "key,kind,rows"},
		{"definitions?csv=9", 404, "There is no such table"},
		{"models", 200, "caddy cadenza costs --by provider,model --since 24h"},
		{"models?over=7d", 200, "--since 7d"},
		{"limits", 200, "No limit is configured."},
		{"limits?subject=web", 200, "caddy cadenza limits web"},
		{"keys", 200, "Making and revoking keys needs the role admin."},
		{"erase", 200, "Erasing and exporting need the role admin."},
		{"audit", 403, "this needs the role admin"},
		{"nothing", 404, "There is no such page"},
	} {
		var a answer
		// The writer stores records and counts of refusals a moment later.
		eventually(t, test.path+" shows "+test.shows, func() bool {
			a = g.do("GET", "/console/"+test.path, "", session)
			return a.status == test.status && strings.Contains(string(a.body), test.shows)
		})
		if strings.Contains(string(a.body), "ZgotmplZ") {
			t.Errorf("%s has a value that its template refuses: %s", test.path, a.body)
		}
	}
}

// TestConsoleSaysWhatATraceIs opens the trace of vectors.
func TestConsoleSaysWhatATraceIs(t *testing.T) {
	g := startConsoleSite(t, map[string]string{
		"definitions/endpoints/docs.yaml": "task: embedding\ntargets: [ { provider: canned, model: c, space: s } ]\n",
	})
	session := g.signIn("our_editor")
	for _, test := range []struct{ path, body, says string }{
		{"/v1/embeddings", `{"model":"docs","input":"Where?","context":{"plan":"pro"}}`, "Where?"},
	} {
		id := g.post(test.path, test.body).ok(t).header.Get("Cadenza-Trace-Id")
		stored(g, id)
		page := string(g.do("GET", "/console/traces/"+id, "", session).ok(t).body)
		if !strings.Contains(page, test.says) {
			t.Errorf("%s: it does not say %s: %s", test.path, test.says, page)
		}
		for _, text := range []string{"<b>default</b>", "No content was recorded", "Open in the playground"} {
			if strings.Contains(page, text) {
				t.Errorf("%s: it says %s: %s", test.path, text, page)
			}
		}
	}
}
