package caddymodule_test

import (
	"errors"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// TestConsoleErases counts and erases a person's traces in the page, and looks for what is
// left of the person.
func TestConsoleErases(t *testing.T) {
	g := startConsoleSite(t)
	const person = "person <oskar-quill>"
	for range 2 {
		stored(g, g.post("/v1/remoteconfigs", `{"keys":["checkout"],"metadata":{"user":"`+person+`"}}`).ok(t).header.Get("Cadenza-Trace-Id"))
	}
	g.post("/v1/metrics", `{"unit":{"seats":41},"values":{"minutes":3}}`).ok(t)
	admin, editor := g.signIn("our_admin"), g.signIn("our_editor")
	unit := url.Values{"by": {"unit"}, "member": {"seats"}, "value": {"41"}}
	count := url.Values{"by": {"metadata"}, "member": {"user"}, "value": {person}}
	with := func(confirm string) url.Values {
		return url.Values{"by": count["by"], "member": count["member"], "value": count["value"], "confirm": {confirm}}
	}
	if a := g.do("POST", "/console/erase", with(person).Encode(), form(editor)); a.status != http.StatusForbidden {
		t.Errorf("an editor erases: %d", a.status)
	}
	for _, test := range []struct {
		form  url.Values
		shows string
	}{
		{count, "Found: <b>2 traces, 0 reports and 0 kept replies</b>"},
		{with("person"), "what you typed is not the value"},
		{with(""), "what you typed is not the value"},
		{url.Values{"by": {"metadata"}, "value": {person}}, "a name is missing"},
		{unit, "Found: <b>0 traces, 1 reports"},
		{url.Values{"by": {"unit"}, "value": {"41"}}, "a name is missing"},
		{url.Values{"by": {"unit"}, "member": {"chairs"}, "value": {"41"}}, "unit.chairs: the field"},
		{url.Values{"by": {"unit"}, "member": {"seats"}, "value": {"41"}, "confirm": {"41"}}, "Erased: 0 traces, 1 reports"},
		{unit, "Found: <b>0 traces, 0 reports"},
		{url.Values{"by": {"decision"}, "value": {" "}}, "a value is missing"},
		{url.Values{"by": {"decision"}, "value": {"x"}}, "must be the id of a decision"},
		{url.Values{"by": {"everything"}, "value": {"x"}}, "there is no parameter"},
		{count, "Found: <b>2 traces"}, // nothing was erased so far
	} {
		a := g.do("POST", "/console/erase", test.form.Encode(), form(admin))
		if page := shownText(string(a.body)); a.status != 200 || !strings.Contains(page, test.shows) || strings.Contains(page, person) {
			t.Errorf("%v: %d %s", test.form, a.status, page)
		}
	}
	// What the filters choose can be exported until then.
	page := string(g.do("GET", "/console/erase?since=&metadata="+url.QueryEscape("user="+person), "", admin).ok(t).body)
	link := regexp.MustCompile(`href="(/console/api/export[^"]*)"`).FindStringSubmatch(page)
	if link == nil || !strings.Contains(page, "<b>2 traces</b>: <a") {
		t.Fatalf("no link: %s", page)
	}
	export := g.do("GET", html.UnescapeString(link[1]), "", admin).ok(t)
	if n := strings.Count(string(export.body), "\n"); n != 2 || export.header.Get("Content-Disposition") == "" {
		t.Errorf("%d lines: %v", n, export.header)
	}
	for path, shows := range map[string]string{"erase?colour=red": "there is no parameter &#34;colour&#34;", "erase?metadata.user=x": "No trace passes these filters", "audit?colour=red": "there is no parameter &#34;colour&#34;"} {
		if page := g.do("GET", "/console/"+path, "", admin).ok(t); !strings.Contains(string(page.body), shows) {
			t.Errorf("%s: %s", path, page.body)
		}
	}
	if page := g.do("GET", "/console/erase?since=x", "", admin).ok(t); !strings.Contains(string(page.body), "since must be a time") {
		t.Errorf("%s", page.body)
	}

	if page := shownText(string(g.do("POST", "/console/erase", with(person).Encode(), form(admin)).ok(t).body)); !strings.Contains(page, "Erased: 2 traces") {
		t.Errorf("%s", page)
	}
	db := g.database()
	rows, err := db.QueryContext(t.Context(), "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'erasures' AND name NOT LIKE 'terms%'")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var tables []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		tables = append(tables, name)
	}
	if err := rows.Err(); err != nil || len(tables) < 10 {
		t.Fatalf("%v, %v", tables, err)
	}
	for _, table := range tables {
		holds := false
		all, err := db.QueryContext(t.Context(), "SELECT * FROM "+table)
		if err != nil {
			t.Fatal(err)
		}
		columns, _ := all.Columns()
		for all.Next() {
			values := make([]any, len(columns))
			texts := make([][]byte, len(columns))
			for i := range values {
				values[i] = &texts[i]
			}
			if err := all.Scan(values...); err != nil {
				t.Fatal(err)
			}
			for _, text := range texts {
				holds = holds || strings.Contains(string(text), "oskar-quill")
			}
		}
		if err := errors.Join(all.Err(), all.Close()); err != nil || holds {
			t.Errorf("%s has the erased value: %t, %v", table, holds, err)
		}
	}
}
