package caddymodule_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/edit"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
)

// tarOf returns files as a tar.
func tarOf(t *testing.T, files map[string]string) string {
	t.Helper()
	var packed strings.Builder
	archive := tar.NewWriter(&packed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(files[name]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(archive, files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.String()
}

// definitionsIn returns the definitions of the site below a folder of a tar, with one file
// changed.
func definitionsIn(folder, file string, change func(string) string) map[string]string {
	files := make(map[string]string)
	for name, text := range workspace {
		if rest, ok := strings.CutPrefix(name, "definitions/"); ok {
			if rest == file {
				text = change(text)
			}
			files[folder+rest] = text
		}
	}
	return files
}

// faster gives production more, and adds a rule.
func faster(text string) string { return strings.Replace(text, "rpm: 600", "rpm: 900", 1) }

func asIs(text string) string { return text }

// lastLine decodes the last line of a plan.
func lastLine(t *testing.T, a answer) (line adminapi.PlanLine) {
	t.Helper()
	if a.header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	lines := bytes.Split(bytes.TrimSpace(a.body), []byte("\n"))
	if err := json.Unmarshal(lines[len(lines)-1], &line); err != nil || line.Progress != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	return line
}

// TestConsolePlans asks what definitions change over recorded decisions: those of a tar, of
// two, and of an edit.
func TestConsolePlans(t *testing.T) {
	g := startConsoleSite(t)
	editor := g.signIn("our_editor")
	with := func(kind string) http.Header {
		h := editor.Clone()
		h.Set("Content-Type", kind)
		return h
	}
	const asTar = "application/x-tar"
	ask := func(query string, files map[string]string) answer {
		t.Helper()
		return g.do("POST", "/console/api/plan?"+query, tarOf(t, files), with(asTar))
	}
	if a := ask("", definitionsIn("", limitsFile, faster)); a.status != http.StatusNotFound || !strings.Contains(string(a.body), "no decisions were recorded since") {
		t.Errorf("before the first decision: %d %s", a.status, a.body)
	}
	var id string
	for _, context := range []string{`{"environment":"production","plan":"pro"}`, `{"environment":"production","plan":"free"}`, `{"environment":"staging","plan":"pro"}`} {
		id = g.post("/v1/remoteconfigs", `{"keys":["limits"],"context":`+context+`}`).ok(t).header.Get("Cadenza-Trace-Id")
		stored(g, id)
	}

	changed := func(plan *inspect.Plan) string {
		if plan == nil {
			return "no plan"
		}
		text := fmt.Sprintf("%d of %d, %d not decided", plan.Changed, plan.Total, plan.NotDecided)
		for _, d := range plan.Definitions {
			for _, c := range d.Changes {
				text += fmt.Sprintf("; %s: %s -> %s", d.Key, c.Old, c.New)
			}
		}
		return text
	}
	const one = `1 of 3, 0 not decided; limits: {"rpm":600,"burst":60} (row 1) -> {"rpm":900,"burst":60} (row 1)`
	same := definitionsIn("", "", asIs)
	for name, test := range map[string]struct {
		query string
		files map[string]string
		want  string
	}{
		"the same":                      {"", same, "0 of 3, 0 not decided"},
		"an edit":                       {"replay=1h", definitionsIn("", limitsFile, faster), one},
		"as tar makes it of .":          {"", definitionsIn("./", limitsFile, faster), one},
		"against what is served":        {"against=served", definitionsIn("", limitsFile, faster), one},
		"against another folder":        {"", merged(definitionsIn("new/", limitsFile, faster), definitionsIn("against/", "", asIs)), one},
		"the same in both folders":      {"", merged(definitionsIn("new/", limitsFile, faster), definitionsIn("against/", limitsFile, faster)), "0 of 3, 0 not decided"},
		"with files that are not read":  {"", merged(same, map[string]string{".git/HEAD": "x", "README.md": "x", "remoteconfigs/notes.md": "x"}), "0 of 3, 0 not decided"},
		"all definitions but the model": {"", map[string]string{"context.yaml": same["context.yaml"], "remoteconfigs/limits.yaml": "type: object\ndefault: { rpm: 60, burst: 10 }\n"}, `1 of 3, 0 not decided; limits: {"rpm":600,"burst":60} (row 1) -> {"rpm":60,"burst":10} (default)`},
	} {
		if got := changed(lastLine(t, ask(test.query, test.files)).Plan); got != test.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	edited, err := json.Marshal(g.value(6, 7, "staging"))
	if err != nil {
		t.Fatal(err)
	}
	if got := changed(lastLine(t, g.do("POST", "/console/api/plan", string(edited), editor)).Plan); !strings.HasPrefix(got, "2 of 3, 0 not decided; limits: ") {
		t.Errorf("an edit: %s", got)
	}
	if a := ask("format=markdown", definitionsIn("", limitsFile, faster)).ok(t); a.header.Get("Content-Type") != "text/markdown; charset=utf-8" || !strings.Contains(string(a.body), "### plan") || !strings.Contains(string(a.body), `| 1`) {
		t.Errorf("%v %s", a.header, a.body)
	}
	if a := g.do("POST", "/console/api/plan", tarOf(t, same), with("application/x-www-form-urlencoded")); a.status != http.StatusBadRequest || !strings.Contains(string(a.body), "of a tar, the Content-Type is application/x-tar") {
		t.Errorf("a tar of another type: %d %s", a.status, a.body)
	}

	broken := definitionsIn("", limitsFile, func(text string) string { return strings.Replace(text, "production", "nowhere", 1) })
	a := ask("", broken)
	var refused struct {
		Error  string
		Errors []inspect.Finding
	}
	if err := json.Unmarshal(a.body, &refused); err != nil || a.status != http.StatusUnprocessableEntity || len(refused.Errors) != 1 || refused.Errors[0].File != limitsFile || refused.Errors[0].Line != 6 ||
		!strings.HasPrefix(refused.Error, "the gateway would not serve these definitions:\nremoteconfigs/limits.yaml:6:") {
		t.Errorf("%d %s", a.status, a.body)
	}
	unknown := definitionsIn("new/", "endpoints/chat.yaml", func(text string) string { return strings.Replace(text, "provider: canned", "provider: nobody", 1) })
	if a := ask("", merged(unknown, definitionsIn("against/", "", asIs))); a.status != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), "new/endpoints/chat.yaml") {
		t.Errorf("a provider that this gateway has not: %d %s", a.status, a.body)
	}
	for name, test := range map[string]struct {
		query, body string
		status      int
		says        string
	}{
		"a path out":          {"", tarOf(t, map[string]string{"../context.yaml": "x"}), 400, "below its folder"},
		"one folder alone":    {"", tarOf(t, definitionsIn("new/", "", asIs)), 400, "in the folders new and against"},
		"no tar":              {"", strings.Repeat("x", 1024), 400, "no tar that is whole"},
		"nothing in it":       {"", tarOf(t, map[string]string{"context.yaml": "fields: {}\n"}), 400, "the tar has no definition: they are in its folders endpoints, prompts and remoteconfigs"},
		"a tar that is cut":   {"", tarOf(t, same)[:700], 400, "no tar that is whole"},
		"no such parameter":   {"reply=7d", "", 400, "replay"},
		"no such time":        {"replay=yesterday", "", 400, "replay must be"},
		"against a revision":  {"against=0123456789ab", "", 400, "against must be served"},
		"an unknown format":   {"format=html", "", 400, "format must be markdown or json"},
		"another's workspace": {"workspace=other", tarOf(t, same), 404, "other"},
	} {
		if a := g.do("POST", "/console/api/plan?"+test.query, test.body, with(asTar)); a.status != test.status || !strings.Contains(string(a.body), test.says) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
}

func merged(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// TestPlanOfSlowCaller makes plans while another one's definitions come, and that one then.
func TestPlanOfSlowCaller(t *testing.T) {
	g := startConsoleSite(t)
	header := g.signIn("our_editor")
	header.Set("Content-Type", "application/x-tar")
	stored(g, g.post("/v1/remoteconfigs", `{"keys":["limits"],"context":{}}`).ok(t).header.Get("Cadenza-Trace-Id"))
	body, tell := io.Pipe()
	request, err := http.NewRequestWithContext(t.Context(), "POST", "http://gateway/console/api/plan", body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header
	slow := make(chan int, 1)
	go func() {
		response, err := g.client.Do(request)
		if err != nil {
			t.Error(err)
			slow <- 0
			return
		}
		_ = response.Body.Close()
		slow <- response.StatusCode
	}()
	packed := tarOf(t, definitionsIn("", "", asIs))
	if _, err := io.WriteString(tell, packed[:600]); err != nil {
		t.Fatal(err)
	}
	if a := g.do("POST", "/console/api/plan", packed, header); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
	if _, err := io.WriteString(tell, packed[600:]); err != nil {
		t.Fatal(err)
	}
	_ = tell.Close()
	if status := <-slow; status != http.StatusOK {
		t.Errorf("the slow one: %d", status)
	}
}

// TestConsolePlanPage goes from the review of an edit to its plan, to the plan's address, and
// back.
func TestConsolePlanPage(t *testing.T) {
	g := startConsoleSite(t)
	editor, viewer := g.signIn("our_editor"), g.signIn("our_viewer")
	id := g.post("/v1/remoteconfigs", `{"keys":["limits"],"context":{"environment":"production","plan":"pro"}}`).ok(t).header.Get("Cadenza-Trace-Id")
	stored(g, id)
	post := func(session http.Header, path string, e edit.Edit, more ...string) answer {
		t.Helper()
		header := session.Clone()
		header.Set("Content-Type", "application/x-www-form-urlencoded")
		values := url.Values{"action": {e.Action}, "file": {e.File}, "base": {e.Base}, "text": {e.Text}, "line": {fmt.Sprint(e.Line)}, "column": {fmt.Sprint(e.Column)}}
		for i := 0; i < len(more); i += 2 {
			values.Set(more[i], more[i+1])
		}
		return g.do("POST", "/console/"+path, values.Encode(), header)
	}
	shows := func(what string, a answer, status int, parts ...string) string {
		t.Helper()
		page := shownText(string(a.body))
		if a.status != status {
			t.Errorf("%s: %d", what, a.status)
		}
		for _, part := range append(parts, "Cadenza") {
			if !strings.Contains(page, part) {
				t.Errorf("%s lacks %q: %s", what, part, page)
			}
		}
		return page
	}
	before := g.read(limitsFile)
	e := g.value(6, 7, "staging")
	shows("the review", post(editor, "edit", e, "step", "review"), 200, `action="/console/plan"`, `name="replay" value="7d"`)
	page := shows("the plan", post(editor, "plan", e, "replay", "1h"), 200, "100.0 %", `{&#34;rpm&#34;:600,&#34;burst&#34;:60} (row 1)`, `{&#34;rpm&#34;:60,&#34;burst&#34;:10} (default)`, `href="/console/traces/`+id,
		"No units of splits", `value="review">Back to the review`, `name="replay" value="1h"`, "What the served definitions answer")
	_, link, _ := strings.Cut(page, `href="/console/plan?`)
	link, _, _ = strings.Cut(link, `"`)
	link = html.UnescapeString(link)
	if values, err := url.ParseQuery(link); err != nil || values.Get("text") != "staging" || values.Get("replay") != "1h" || values.Get("line") != "6" {
		t.Fatalf("the page's address is %q (%v): %s", link, err, page)
	}
	shows("the address", g.do("GET", "/console/plan?"+link, "", editor), 200, "100.0 %", `href="/console/traces/`+id)
	shows("a viewer's", g.do("GET", "/console/plan?"+link, "", viewer), 403, "this needs the role editor")
	if g.read(limitsFile) != before {
		t.Error("a plan changes the file")
	}
	long := edit.Edit{Action: "text", File: limitsFile, Base: e.Base, Text: before + strings.Repeat("# a comment\n", 500)}
	shows("the same with a long comment", post(editor, "plan", long), 200, "0.0 %", `href="/console/edit?file=remoteconfigs%2Flimits.yaml"`)
	shows("a value that the model has not", post(editor, "plan", g.value(6, 7, "nowhere")), 200, "The gateway would not serve this", "nowhere", "6:7")
	shows("no time", post(editor, "plan", e, "replay", "soon"), 200, "replay must be a time")
	shows("no decisions", post(editor, "plan", e, "replay", "2100-01-01"), 200, "no decisions were recorded since")
	shows("no edit", g.do("GET", "/console/plan", "", editor), 200, "There is no edit to plan")
	stale := e
	stale.Base = edit.Hash([]byte("another"))
	shows("of another file", post(editor, "plan", stale), 200, "was changed meanwhile")
}

// TestPlanOfModels plans another model for a call that was recorded.
func TestPlanOfModels(t *testing.T) {
	g := startConsoleSite(t, map[string]string{
		"definitions/prompts/ask.yaml":   "provider: canned\nmodel: small\nextra: { answer: yes }\nmessages: [ { role: user, content: \"Why?\" } ]\n",
		"definitions/endpoints/ask.yaml": "prompt: ask\n",
	})
	editor := g.signIn("our_editor")
	stored(g, g.post("/v1/endpoints", `{"key":"ask","context":{}}`).ok(t).header.Get("Cadenza-Trace-Id"))
	before := g.read("prompts/ask.yaml")
	e := edit.Edit{Action: "text", File: "prompts/ask.yaml", Base: edit.Hash([]byte(before)), Text: strings.Replace(before, "small", "large", 1)}
	body, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	plan := lastLine(t, g.do("POST", "/console/api/plan", string(body), editor)).Plan
	if plan == nil || len(plan.Models) != 1 || plan.Models[0].Old != "canned/small" || plan.Models[0].New != "canned/large" || plan.Models[0].Calls != 1 || plan.Models[0].Priced != 1 || plan.Models[0].TookOld == nil {
		t.Fatalf("%+v", plan)
	}
	editor.Set("Content-Type", "application/x-www-form-urlencoded")
	page := string(g.do("POST", "/console/plan", url.Values{"action": {e.Action}, "file": {e.File}, "base": {e.Base}, "text": {e.Text}}.Encode(), editor).ok(t).body)
	for _, part := range []string{"<h2>Models</h2>", "canned/small", "canned/large", "not seen"} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %q: %s", part, page)
		}
	}
}
