package rules

import (
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/google/go-cmp/cmp"
)

const nestedModel = `
fields:
  plan:     { type: string, path: user.plan }
  country:  { type: string, path: user.address.country, ignore_case: true }
  zip:      { type: number, path: user.address.zip, max: 9999 }
  groups:   { type: list, path: groups }
  app:      { type: string, path: app, format: semver }
  app_name: { type: string, path: app }
  user:     { type: string }
  flat.dot: { type: string }
computed: { belgian: country == "BE" }
segments: { home: [ { country: be } ] }
`

// A field with a path is read from where the path leads, and from nowhere else.
func TestPaths(t *testing.T) {
	for _, tt := range []struct {
		context string
		values  map[string]string // by field; the others are missing
		notes   []Note
	}{
		{`{"user":{"plan":"pro","address":{"country":"BE","zip":"9000"}}}`,
			map[string]string{"plan": `"pro"`, "country": `"BE"`, "zip": "9000"}, []Note{{"user", NoteTypeMismatch}}},
		{`{"plan":"pro","country":"BE","flat.dot":"x","flat":{"dot":"y"}}`, map[string]string{"flat.dot": `"x"`}, nil},
		{`{"user":"a text"}`, map[string]string{"user": `"a text"`},
			[]Note{{"plan", NoteTypeMismatch}, {"country", NoteTypeMismatch}, {"zip", NoteTypeMismatch}}},
		{`{"user":{"plan":"pro","address":[1]}}`, map[string]string{"plan": `"pro"`},
			[]Note{{"user", NoteTypeMismatch}, {"country", NoteTypeMismatch}, {"zip", NoteTypeMismatch}}},
		{`{"user":null,"groups":null}`, nil, nil},
		{`{"user":{"address":null,"plan":null,"other":{"deep":1}}}`, nil, []Note{{"user", NoteTypeMismatch}}},
		{`{"user":{"address":{"zip":10000}}}`, nil, []Note{{"user", NoteTypeMismatch}, {"zip", NoteValueNotAllowed}}},
		{`{"app":"1.2.3","groups":["a"]}`, map[string]string{"app": `"1.2.3"`, "app_name": `"1.2.3"`, "groups": `["a"]`}, nil},
	} {
		m := model(t, nestedModel)
		b := bind(t, m, tt.context)
		for slot, name := range m.FieldNames() {
			want := tt.values[name]
			if want == "" {
				want = "missing"
			}
			if got := string(b.appendValue(nil, int32(slot))); got != want {
				t.Errorf("%s: %s is %s, want %s", tt.context, name, got, want)
			}
		}
		if diff := cmp.Diff(tt.notes, b.Notes()); diff != "" {
			t.Errorf("%s: %s", tt.context, diff)
		}
	}
	m := model(t, nestedModel)
	tab := table(t, m, "rules: [{ when: { belgian: true, segment: home, country: be }, value: yes }]")
	if got := outcome(tab, tab.Evaluate(bind(t, m, `{"user":{"address":{"country":"BE"}}}`))); got != "yes" {
		t.Error(got)
	}
}

// Strict data models say which member is wrong, by its path.
func TestPathsThatAreRefused(t *testing.T) {
	const strict = "on_unknown_field: reject\non_type_mismatch: reject\nfields:\n" +
		"  plan: { type: string, path: user.plan, required: true }\n  zip: { type: number, path: user.address.zip }\n"
	for context, want := range map[string]string{
		`{"user":{"plan":1.5}}`:                         "",
		`{"user":{"plan":{}}}`:                          "context.user.plan must be text, this is an object",
		`{"user":{"address":{"zip":1}}}`:                "context.user.plan is required: give text",
		`{"user":"x"}`:                                  `context.user must be an object, this is "x"`,
		`{"user":{"plan":"a","address":7}}`:             "context.user.address must be an object, this is 7",
		`{"user":{"plan":"a","address":{"zap":1}}}`:     "context.user.address.zap is not a field of the data model: did you mean user.address.zip?",
		`{"user":{"plan":"a"},"plan":"b"}`:              "context.plan is not a field of the data model",
		`{"user":{"plan":"a"},"usr":{}}`:                "context.usr is not a field of the data model",
		`{"user":{"plan":"a","address":{}},"user.x":1}`: "context.user.x is not a field of the data model",
	} {
		var b Binding
		err := model(t, strict).Bind(&b, parseJSON(t, context), noon)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %s, want %s", context, got, want)
		}
	}
}

func TestPathMistakes(t *testing.T) {
	for path, want := range map[string]string{
		`""`:     `a path must name members with dots between them, such as address.country, this is ""`,
		"a..b":   `a path must name members with dots between them, such as address.country, this is "a..b"`,
		".a":     `a path must name members with dots between them, such as address.country, this is ".a"`,
		"[a, b]": `path must be text, this is a list`,
	} {
		var errs document.Errors
		DecodeModel(parseYAML(t, "context.yaml", "fields: { f: { type: string, path: "+path+" } }"), nil, &errs)
		if got := mistakes(&errs); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// Nested members are bound in the one pass over the context, and cost nothing
// but their walk.
func TestPathsDoNotAllocate(t *testing.T) {
	m := model(t, nestedModel)
	context := parseJSON(t, `{"user":{"plan":"pro","address":{"country":"be","zip":9000}},"groups":["a","b"]}`)
	var b Binding
	if n := testing.AllocsPerRun(100, func() { _ = m.Bind(&b, context, noon) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// ContextJSON writes what Bind reads.
func TestContextJSON(t *testing.T) {
	m := model(t, nestedModel)
	values := make([]string, len(m.FieldNames()))
	if got := m.ContextJSON(values); got != `{"other":1}` {
		t.Error(got)
	}
	copy(values, []string{`"pro"`, `"be"`, "9000", `["a"]`, `"1.0.0"`, `"1.0.0"`, "", `"x"`})
	const want = `{"user":{"plan":"pro","address":{"country":"be","zip":9000}},"groups":["a"],"app":"1.0.0","flat.dot":"x"}`
	got := m.ContextJSON(values)
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	b := bind(t, m, got)
	for i, v := range values {
		if v == "" {
			v = "missing"
		}
		if have := string(b.appendValue(nil, int32(i))); have != v {
			t.Errorf("%s: %s, want %s", m.FieldNames()[i], have, v)
		}
	}
}

// The examples of findings are contexts as callers would send them.
func TestExamplesFollowPaths(t *testing.T) {
	m := model(t, nestedModel)
	tab := table(t, m, "columns: [country, plan, value]\nmatrix: [[be, any, 1], [any, pro, 2]]")
	for _, f := range tab.Analyse(Analysis{Now: noon, Gaps: true, Overlaps: true}) {
		if strings.Contains(f.Witness, `"user":{`) {
			return
		}
	}
	t.Error("no finding has an example with nested members")
}

// TestMembersOfAContext: a member is a field, or leads to one. Names of other fields are
// no members.
func TestMembersOfAContext(t *testing.T) {
	m := model(t, nestedModel)
	for name, want := range map[string]bool{
		"user": true, "groups": true, "app": true, "flat.dot": true,
		"plan": false, "country": false, "app_name": false, "belgian": false, "home": false, "address": false, "": false,
	} {
		if got := m.HasMember(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
