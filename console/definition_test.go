package console

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
)

// TestDefinitionLink has links lead to the definition whose key they are made of.
func TestDefinitionLink(t *testing.T) {
	mux := http.NewServeMux()
	id := ""
	mux.HandleFunc("GET "+prefix+"definitions/{id...}", func(_ http.ResponseWriter, r *http.Request) { id = r.PathValue("id") })
	for key, want := range map[string]string{
		"reply": prefix + "definitions/prompt/reply", "a/v1.2:x": prefix + "definitions/prompt/a/v1.2:x",
		"a//b": prefix + "definitions/prompt%2Fa%2F%2Fb", "..": prefix + "definitions/prompt%2F..", "a/": prefix + "definitions/prompt%2Fa%2F",
		"../x": "", ".": "", "/": "", "//": "", "./.": "", "a/../b": "", "...": "", "/a": "",
	} {
		link := definitionLink("prompt", key)
		if want != "" && link != want {
			t.Errorf("%s: %s, want %s", key, link, want)
		}
		id = "not reached"
		mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, link, nil))
		if id != "prompt/"+key {
			t.Errorf("%s leads to %q, want the key %q", link, id, key)
		}
	}
}

func TestTryLink(t *testing.T) {
	fields := []adminapi.DataField{{Name: "plan"}, {Name: "country", Path: "address.country"}, {Name: "tags"}, {Name: "seats"}}
	for context, want := range map[string]string{
		`{"plan":"pro","address":{"country":"BE"},"tags":["a","b c"],"seats":12}`: "field.country=BE&field.plan=pro&field.seats=12&field.tags=a%2C+b+c",
		`{"plan":"<b>&"}`:              "field.plan=%3Cb%3E%26",
		`{"plan":null,"address":"no"}`: "", `{"other":1}`: "", `null`: "", ``: "",
	} {
		if want != "" {
			want = prefix + "try?" + want
		}
		if link := tryLink(fields, json.RawMessage(context), time.Time{}); link != want {
			t.Errorf("%s: %s, want %s", context, link, want)
		}
	}
	if link := tryLink(fields, json.RawMessage(`{"seats":1}`), time.Unix(0, 0)); link != prefix+"try?at=1970-01-01T00%3A00%3A00Z&field.seats=1" {
		t.Error(link)
	}
}

// TestPlaceLinks gives the address of the editor to those who may use it.
func TestPlaceLinks(t *testing.T) {
	at := inspect.Place{File: "/srv/definitions/prompts/a b.yaml", Line: 7, Column: 5}
	for _, test := range []struct {
		role gateway.Role
		want string
	}{
		{gateway.RoleEditor, "/console/edit?" + url.Values{"file": {"prompts/a b.yaml"}, "line": {"7"}, "column": {"5"}}.Encode()},
		{gateway.RoleAdmin, "/console/edit?" + url.Values{"file": {"prompts/a b.yaml"}, "line": {"7"}, "column": {"5"}}.Encode()},
		{gateway.RoleViewer, ""},
	} {
		folder := places{&visit{Visitor: &gateway.Visitor{Role: test.role}, Status: new(adminapi.Status)}, "/srv/definitions"}
		if p := folder.At(at); p.Edit != test.want || p.Text != "a b.yaml:7:5" {
			t.Errorf("%s: %+v", test.role, p)
		}
	}
}

// TestCells has texts with markup, with and without a link to the editor.
func TestCells(t *testing.T) {
	const link, escaped = "/console/edit?file=a&line=1", "/console/edit?file=a&amp;line=1"
	for _, test := range []struct {
		template string
		data     any
		want     string
	}{
		{"cell", place{Text: "<b>"}, "&lt;b&gt;"},
		{"cell", place{"<b>", link}, `<a href="` + escaped + `">&lt;b&gt;</a>`},
		{"cell", place{Edit: link}, `<a href="` + escaped + `"><span class="unseen">empty, edit</span></a>`},
		{"cell", place{"nl", link}, `<a href="` + escaped + `">nl</a>`},
		{"place", place{Text: "<i>.yaml:1:2"}, `<code class="place">&lt;i&gt;.yaml:1:2</code>`},
		{"place", place{"a:1:2", link}, `<a class="place" href="` + escaped + `">a:1:2</a>`},
	} {
		var b strings.Builder
		if err := templates.ExecuteTemplate(&b, test.template, test.data); err != nil || b.String() != test.want {
			t.Errorf("%+v: %s, want %s (%v)", test.data, &b, test.want, err)
		}
	}
}

// TestDefinitionsList finds what may be stale.
func TestDefinitionsList(t *testing.T) {
	stats := func(text string) (s adminapi.Stats) {
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	loaded := adminapi.LoadedWorkspace{
		Definitions: []inspect.Summary{
			{Kind: "prompt", Key: "reply", Rows: 2, File: "reply.yaml"},
			{Kind: "endpoint", Key: "chat", Uses: []inspect.Use{{Kind: "prompt", Key: "reply", As: "prompt"}}},
			{Kind: "prompt", Key: "unused"},
			{Kind: "remoteconfig", Key: "asked"},
			{Kind: "remoteconfig", Key: "limits", Rows: 3, File: "limits.yaml", Matrix: "limits.csv", Uses: []inspect.Use{{Kind: "remoteconfig", Key: "asked", As: "condition"}}},
			{Kind: "remoteconfig", Key: "few", Rows: 1},
			{Kind: "remoteconfig", Key: "alone"},
		},
		Warnings: []inspect.Finding{
			{File: "limits.csv", Rule: "unreachable", Message: "lost is never reached, for example for {}"},
			{File: "limits.yaml", Rule: "dead-column", Message: "plan never matters"},
			{File: "limits.yaml", Rule: "expired", More: 3},
		},
	}
	const span = `{"since":"2026-11-01T00:00:00Z","oldest":"2026-10-31T00:00:00Z","rows":[
		{"kind":"endpoint","key":"chat","variant":"en","traces":30,"scores":1,"score_mean":40},
		{"kind":"prompt","key":"reply","variant":"nl","traces":10,"scores":3,"score_mean":80},
		{"kind":"remoteconfig","key":"limits","variant":"paid","traces":20},
		{"kind":"remoteconfig","key":"few","variant":"default","traces":19}]}`
	const today = `{"rows":[{"kind":"endpoint","key":"chat","variant":"en","traces":1},{"kind":"prompt","key":"reply","variant":"nl","traces":2}]}`
	for _, test := range []struct {
		name, span, problem string
		unused              []string
	}{
		{"covered", span, "", []string{"no traffic in 7 days"}},
		{"too young", `{"since":"2026-11-01T00:00:00Z","oldest":"2026-11-01T00:00:01Z"}`, "", nil},
		{"no traces", `{"since":"2026-11-01T00:00:00Z"}`, "", nil},
		{"not known", span, "too many", nil},
	} {
		p := &definitionsPage{Days: 7, Loaded: loaded, Problem: test.problem}
		s, day := stats(test.span), stats(today)
		p.list(&s, &day)
		rows := make(map[string]definitionRow)
		for _, r := range p.Rows {
			rows[r.Key] = r
		}
		if diff := cmp.Diff(test.unused, rows["unused"].Stale); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
		if alone := rows["alone"].Stale != nil; alone != (test.name == "covered") {
			t.Errorf("%s: alone is stale: %t", test.name, alone)
		}
		if test.name != "covered" {
			continue
		}
		if r := rows["reply"]; r.Span.Calls != 40 || r.Span.Score() != "70.0" || r.Shares != "nl 66.7 %, en 33.3 %" || r.Stale != nil {
			t.Errorf("%+v", r)
		}
		if diff := cmp.Diff([]string{"paid alone answered all", "lost is never reached"}, rows["limits"].Stale); diff != "" {
			t.Error(diff)
		}
		for _, key := range []string{"asked", "few", "chat"} {
			if rows[key].Stale != nil {
				t.Errorf("%s is stale: %s", key, rows[key].Stale)
			}
		}
	}
}

func TestSharesOf(t *testing.T) {
	parts := map[string]tally{"a": {Calls: 50}, "b": {Calls: 20}, "c": {Calls: 10}, "": {Calls: 10}, "e": {Calls: 5}, "f": {Calls: 5}}
	if got := sharesOf(parts); got != "a 50.0 %, b 20.0 %, (none) 10.0 %, c 10.0 %, and 2 more" {
		t.Error(got)
	}
	if got := sharesOf(nil); got != "" {
		t.Error(got)
	}
}

// TestMemberNames has members of a content by the names that files have.
func TestMemberNames(t *testing.T) {
	p := &definitionPage{places: places{visit: &visit{Visitor: new(gateway.Visitor)}}, Traffic: new(definitionTraffic)}
	if err := json.Unmarshal([]byte(`{"kind":"prompt","members":{"variables":{},"reasoningEffort":"low","variants":{"en":{"maxTokens":5,"extra":{"maxTokens":6}}}}}`), &p.Definition); err != nil {
		t.Fatal(err)
	}
	p.readVariants()
	var page strings.Builder
	if err := templates.ExecuteTemplate(&page, "definition.main", p); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`<th scope="row">max_tokens</th>`, "<pre>maxTokens: 6</pre>", "<dt>reasoning_effort</dt>", "<pre>{}</pre>"} {
		if !strings.Contains(page.String(), part) {
			t.Errorf("the page has no %s", part)
		}
	}
}
