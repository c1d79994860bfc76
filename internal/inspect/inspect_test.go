package inspect

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fastjson"
)

var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// workspace writes files, name and content in turn, and returns their folder.
func workspace(t testing.TB, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(files[i+1]), 0o644))
	}
	return dir
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func load(t testing.TB, dir string) *definition.Snapshot {
	t.Helper()
	s, err := definition.Load(dir)
	must(t, err)
	return s
}

const examples = "../../examples/definitions"

func object(t testing.TB, text string) *fastjson.Value {
	t.Helper()
	v, err := ParseObject("context", []byte(text))
	must(t, err)
	return v
}

func TestEvaluate(t *testing.T) {
	s := load(t, examples)
	type want struct {
		Value, Variant, Row, Reason, Problem string
		Targets                              []Target
	}
	for name, test := range map[string]struct {
		q    Query
		want want
	}{
		"remote configuration": {
			q:    Query{Key: "model_limits", Context: object(t, "{environment: production, plan: enterprise, seats: 250}")},
			want: want{Value: `{"rpm":6000,"burst":600}`, Row: "row 1", Reason: "match"},
		},
		"no context": {
			q:    Query{Key: "model_limits"},
			want: want{Value: `{"rpm":60,"burst":10}`, Row: "default", Reason: "no_context"},
		},
		"schedule": {
			q:    Query{Key: "new_checkout", Context: object(t, `{"environment":"staging"}`), At: time.Date(2030, 12, 2, 0, 0, 0, 0, time.UTC)},
			want: want{Value: "true", Row: "launch", Reason: "match"},
		},
		"prompt": {
			q:    Query{Key: "text_to_bulletpoints", Variables: object(t, "{text: hello}")},
			want: want{Value: `"content":"hello"`, Variant: "text_to_bulletpoints", Row: "default", Reason: "no_context"},
		},
		"missing variable": {
			q:    Query{Key: "text_to_bulletpoints"},
			want: want{Variant: "text_to_bulletpoints", Row: "default", Reason: "no_context", Problem: "text"},
		},
		"endpoint": {
			q: Query{Key: "support_chat", Context: object(t, "{locale: nl-BE}"), Variables: object(t, "{question: Waar?}")},
			want: want{Value: `"content":"Waar?"`, Variant: "nl", Row: "row 1", Reason: "match",
				Targets: []Target{{Provider: "openai", Model: "gpt-6-luna"}, {Provider: "canned"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if test.q.At.IsZero() {
				test.q.At = now
			}
			a, err := Evaluate(s, test.q)
			must(t, err)
			got := want{string(a.Value), a.Variant, a.Row, a.Reason, a.Problem, a.Targets}
			if strings.Contains(got.Value, test.want.Value) && test.want.Value != "" {
				got.Value = test.want.Value
			}
			if test.want.Problem != "" && strings.Contains(got.Problem, test.want.Problem) {
				got.Problem = test.want.Problem
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if (a.Row == "default") != (a.Position == "") {
				t.Errorf("row %s stands at %q", a.Row, a.Position)
			}
		})
	}
}

func TestEvaluateExplains(t *testing.T) {
	a, err := Evaluate(load(t, examples), Query{
		Key: "model_limits", Context: object(t, "{environment: production, plan: free, seats: 5}"), At: now, Explain: true,
	})
	must(t, err)
	if len(a.Rows) != 5 {
		t.Fatalf("got %d rows", len(a.Rows))
	}
	r := a.Rows[3]
	if r.Matched || r.Field != "plan" || r.Cell != "not free" || !strings.Contains(r.Value, "free") {
		t.Errorf("row 4: %+v", r)
	}
}

func TestEvaluateErrors(t *testing.T) {
	dir := workspace(t,
		"context.yaml", "on_unknown_field: reject\nfields: { plan: string }\n",
		"remoteconfigs/chat.yaml", "type: boolean\ndefault: true\n",
		"prompts/chat.yaml", "messages: [ { role: user, content: hi } ]\n",
	)
	s := load(t, dir)
	_, err := Evaluate(s, Query{Key: "chatt"})
	if e, ok := errors.AsType[*KeyError](err); !ok || !strings.Contains(e.Error(), `did you mean "chat"?`) {
		t.Errorf("unknown key: %v", err)
	}
	_, err = Evaluate(s, Query{Key: "chat"})
	if e, ok := errors.AsType[*KeyError](err); !ok || !strings.Contains(e.Error(), "one of prompt, remoteconfig") {
		t.Errorf("ambiguous key: %v", err)
	}
	_, err = Evaluate(s, Query{Key: "chat", Kind: kind.Endpoint})
	if e, ok := errors.AsType[*KeyError](err); !ok || !strings.Contains(e.Error(), "no endpoint") {
		t.Errorf("key of another kind: %v", err)
	}
	_, err = Evaluate(s, Query{Key: "chat", Kind: kind.Prompt, Context: object(t, "{plann: pro}")})
	if e, ok := errors.AsType[*rules.BindError](err); !ok || !strings.Contains(e.Error(), "plan") {
		t.Errorf("refused context: %v", err)
	}
}

// TestAliases: a definition is found by its aliases, and listed with them.
func TestAliases(t *testing.T) {
	s := load(t, workspace(t,
		"remoteconfigs/chat.yaml", "type: boolean\ndefault: true\naliases: [ talk, prompts/x ]\n",
		"prompts/x.yaml", "messages: [ { role: user, content: hi } ]\naliases: [ talk ]\n",
	))
	for name, want := range map[string]string{"remoteconfigs/talk": "remoteconfig chat", "prompts/talk": "prompt x", "prompts/x": "remoteconfig chat"} {
		if a, err := Evaluate(s, Query{Key: name}); err != nil || a.Kind+" "+a.Key != want {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
	if _, err := Evaluate(s, Query{Key: "talk"}); err == nil || !strings.Contains(err.Error(), `"talk" is the name of several definitions: give the kind, one of prompt, remoteconfig`) {
		t.Error(err)
	}
	var listed [][]string
	for _, summary := range Summaries(s) {
		listed = append(listed, append([]string{summary.Key}, summary.Aliases...))
	}
	if diff := cmp.Diff([][]string{{"x", "talk"}, {"chat", "prompts/x", "talk"}}, listed); diff != "" {
		t.Error(diff)
	}
}

func TestParseObject(t *testing.T) {
	for text, want := range map[string]string{
		``:                         "<nil>",
		`null`:                     "<nil>",
		`{"a":1,"b":[true]}`:       `{"a":1,"b":[true]}`,
		`{a: 1.50, b: text, c: ~}`: `{"a":1.50,"b":"text","c":null}`,
		`[1]`:                      "error",
		`{"a":1,"a":2}`:            "error",
		`{a: 012}`:                 "error",
		`{`:                        "error",
	} {
		v, err := ParseObject("--context", []byte(text))
		got := "<nil>"
		switch {
		case err != nil:
			got = "error"
			if !strings.HasPrefix(err.Error(), "--context:1:") {
				t.Errorf("%s: the error has no place: %v", text, err)
			}
		case v != nil:
			got = v.String()
		}
		if got != want {
			t.Errorf("%s: got %s (%v), want %s", text, got, err, want)
		}
	}
}

func FuzzParseObject(f *testing.F) {
	for _, seed := range []string{"{a: 1}", `{"a":"\ud800"}`, "a: [&x 1, *x]", "null", "{a: {b: .inf}}", `{"a":1e999}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := ParseObject("context", text)
		if err == nil && v != nil && v.Type() != fastjson.TypeObject {
			t.Errorf("%q became %s", text, v)
		}
	})
}

func TestParseKind(t *testing.T) {
	for _, k := range kind.All {
		if got, err := ParseKind(k.String()); got != k || err != nil {
			t.Errorf("%s: got %v, %v", k, got, err)
		}
	}
	if _, err := ParseKind("promt"); err == nil || !strings.Contains(err.Error(), `"prompt"`) {
		t.Errorf("got %v", err)
	}
}

const modelYAML = `fields:
  plan:   { type: string, values: [free, pro, team] }
  locale: { type: string, match: language-range }
  seats:  { type: number }
  beta:   { type: boolean }
  tags:   { type: list }
  id:     { type: string }
computed:
  big: seats >= 100
segments:
  staff: [ { tags: { all: [a, b] } }, { locale: nl, beta: true } ]
`

// compareFolders compares two workspaces.
func compareFolders(oldDir, newDir string) (*Comparison, error) {
	return Compare(definition.Place{Dir: oldDir}, definition.Place{Dir: newDir}, now)
}

// compareDirs compares two workspaces and proves every example by evaluating
// it on both sides.
func compareDirs(t testing.TB, oldDir, newDir string) *Comparison {
	t.Helper()
	c, err := compareFolders(oldDir, newDir)
	must(t, err)
	before, after := load(t, oldDir), load(t, newDir)
	for _, change := range c.Definitions {
		k, err := ParseKind(change.Kind)
		must(t, err)
		for _, a := range change.Answers {
			at := now
			if a.At != nil {
				at = *a.At
			}
			context := object(t, string(a.Context))
			for _, side := range []struct {
				snapshot *definition.Snapshot
				want     Side
			}{{before, a.Old}, {after, a.New}} {
				got, err := Evaluate(side.snapshot, Query{Key: change.Key, Kind: k, Context: context, At: at})
				switch {
				case err != nil && side.want.Refused != "":
				case err != nil:
					t.Errorf("%s: %v", a.Context, err)
				case k == kind.Prompt && quoteJSON(got.Variant) != string(side.want.Value),
					k != kind.Prompt && string(got.Value) != string(side.want.Value), got.Row != side.want.Row:
					t.Errorf("%s %s at %v: got %s by %s, the comparison says %s by %s",
						change.Key, a.Context, at, got.Value, got.Row, side.want.Value, side.want.Row)
				}
			}
			if a.Old.Refused == a.New.Refused && sameValue(a.Old.Value, a.New.Value) {
				t.Errorf("%s: the answers are the same: %s", a.Context, a.Old.Value)
			}
		}
	}
	return c
}

// summary is a comparison as text that is easy to compare.
func summary(c *Comparison) string {
	var b strings.Builder
	if c.Model {
		b.WriteString("model\n")
	}
	for _, d := range c.Definitions {
		fmt.Fprintf(&b, "%s %s %s %v\n", d.Change, d.Kind, d.Key, d.Members)
		for _, a := range d.Answers {
			fmt.Fprintf(&b, "  %s: %s (%s) -> %s (%s)\n", a.Context, a.Old.Value, a.Old.Row, a.New.Value, a.New.Row)
		}
		if d.Undecided {
			b.WriteString("  undecided\n")
		}
	}
	return b.String()
}

func TestCompare(t *testing.T) {
	const header = "type: number\ndefault: 0\ncolumns: [ plan, seats, value ]\nmatrix:\n"
	config := func(text string) []string { return []string{"context.yaml", modelYAML, "remoteconfigs/c.yaml", text} }
	for name, test := range map[string]struct {
		old, new []string
		want     string
	}{
		"nothing": {config(header + "- [ pro, 10.., 1 ]\n"), config(header + "# the same\n- [pro, 10.., 1]\n"), ""},
		"a value": {config(header + "- [ pro, 10.., 1 ]\n- [ any, any, 2 ]\n"), config(header + "- [ pro, 10.., 3 ]\n- [ any, any, 2 ]\n"),
			"changed remoteconfig c [matrix]\n  {\"plan\":\"pro\",\"seats\":10}: 1 (row 1) -> 3 (row 1)\n"},
		"a bound": {config(header + "- [ pro, 10.., 1 ]\n"), config(header + "- [ pro, 12.., 1 ]\n"),
			"changed remoteconfig c [matrix]\n  {\"plan\":\"pro\",\"seats\":10}: 1 (row 1) -> 0 (default)\n"},
		"a row that is shadowed": {config(header + "- [ pro, any, 1 ]\n"), config(header + "- [ pro, any, 1 ]\n- [ pro, 7, 2 ]\n"),
			"changed remoteconfig c [matrix]\n"},
		"the default": {config("type: number\ndefault: 0\n"), config("type: number\ndefault: 1\n"),
			"changed remoteconfig c [default]\n  null: 0 (default) -> 1 (default)\n"},
		"the same in other words": {config(header + "- [ [pro, team], any, 1 ]\n"), config("type: number\ndefault: 0\nrules:\n- { when: { plan: team }, value: 1 }\n- { when: { plan: pro }, value: 1.0 }\n"),
			"changed remoteconfig c [columns matrix rules]\n"},
		"added and removed": {config("type: boolean\ndefault: true\n"), []string{"context.yaml", modelYAML, "prompts/c.yaml", "messages: [ { role: user, content: hi } ]\n"},
			"added prompt c []\nremoved remoteconfig c []\n"},
		"a segment of the data model": {
			[]string{"context.yaml", modelYAML, "remoteconfigs/c.yaml", "type: boolean\ndefault: false\nrules: [ { when: { segment: staff }, value: true } ]\n"},
			[]string{"context.yaml", strings.Replace(modelYAML, "all: [a, b]", "all: [a, c]", 1), "remoteconfigs/c.yaml", "type: boolean\ndefault: false\nrules: [ { when: { segment: staff }, value: true } ]\n"},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := summary(compareDirs(t, workspace(t, test.old...), workspace(t, test.new...)))
			if name == "a segment of the data model" {
				if !strings.HasPrefix(got, "model\naffected remoteconfig c []\n") || !strings.Contains(got, `"tags":["a","b"]`) {
					t.Errorf("got %s", got)
				}
				return
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestCompareIndirect changes what a table only asks for by another's name.
func TestCompareIndirect(t *testing.T) {
	files := func(bound, share, segment string) []string {
		return []string{
			"context.yaml", strings.Replace(modelYAML, "seats >= 100", "seats >= "+bound, 1),
			"remoteconfigs/base.yaml", "type: boolean\ndefault: false\nrules: [ { when: { plan: " + segment + " }, value: true } ]\n",
			"remoteconfigs/big.yaml", "type: boolean\ndefault: false\nrules: [ { when: { big: true }, value: true } ]\n",
			"remoteconfigs/dependent.yaml", "type: number\ndefault: 0\nrules: [ { when: { config: { base: true } }, value: 1 } ]\n",
			"remoteconfigs/split.yaml", "type: number\ndefault: 0\nrules: [ { id: s, split: { by: id, of: [ { value: 1, share: " + share + " } ] } } ]\n",
		}
	}
	old := workspace(t, files("100", "20%", "pro")...)
	got := make(map[string]int)
	for _, d := range compareDirs(t, old, workspace(t, files("200", "40%", "team")...)).Definitions {
		got[d.Change+" "+d.Key] = len(d.Answers)
	}
	for _, want := range []string{"changed base", "affected big", "affected dependent", "changed split"} {
		if got[want] == 0 {
			t.Errorf("%s: no answer changes: %v", want, got)
		}
	}
	if c := compareDirs(t, old, workspace(t, files("100", "20%", "pro")...)); !c.Empty() {
		t.Errorf("nothing differs, got %s", summary(c))
	}
}

// TestEvaluateConfigured: an evaluation names the configurations that variables read,
// and the variables that are empty.
func TestEvaluateConfigured(t *testing.T) {
	s := load(t, workspace(t, "context.yaml", modelYAML,
		"remoteconfigs/limits.yaml", "type: object\ndefault: { rpm: 1 }\nrules: [ { id: pros, when: { plan: pro }, value: { burst: 2 } } ]\n",
		"prompts/p.yaml", "variables: { a: { config: limits, path: rpm }, b: { config: limits } }\nmessages: [ { role: user, content: \"{{a}}{{b}}\" } ]\n"))
	for _, tt := range []struct {
		context, variables string
		want               []Read
		notes              []string
	}{
		{`{"plan":"pro"}`, `{}`, []Read{{"limits", s.RemoteConfigs["limits"].Version, "pros", "match", "remoteconfigs/limits.yaml:3:10"}}, []string{"variables.a: empty"}},
		{`{}`, `{"a":1}`, []Read{{"limits", s.RemoteConfigs["limits"].Version, "default", "no_context", ""}}, nil},
		{`{"plan":"pro"}`, `{"a":1,"b":2}`, nil, nil},
	} {
		a, err := Evaluate(s, Query{Key: "p", Context: object(t, tt.context), Variables: object(t, tt.variables), At: now})
		must(t, err)
		for i := range a.Read {
			if at := strings.Index(a.Read[i].Position, "remoteconfigs/"); at > 0 {
				a.Read[i].Position = a.Read[i].Position[at:]
			}
		}
		if d := cmp.Diff(tt.want, a.Read); d != "" {
			t.Errorf("%s %s: %s", tt.context, tt.variables, d)
		}
		if d := cmp.Diff(tt.notes, a.Notes); d != "" {
			t.Errorf("%s %s: %s", tt.context, tt.variables, d)
		}
	}
}

// TestCompareConfigured changes what a prompt's variables read of a configuration.
func TestCompareConfigured(t *testing.T) {
	files := func(value string) []string {
		return []string{
			"context.yaml", modelYAML,
			"remoteconfigs/limits.yaml", "type: object\ndefault: { deep: { rpm: 1 } }\nrules: [ { when: { plan: pro }, value: " + value + " } ]\n",
			"prompts/path.yaml", "variables: { a: { config: limits, path: deep.rpm, default: none } }\nmessages: [ { role: user, content: \"{{a}}\" } ]\n",
			"prompts/whole.yaml", "variables: { a: { config: limits }, b: { config: limits, path: deep } }\nprovider: canned\nmodel: m\nextra: { echo: true }\nmessages: [ { role: user, content: \"{{a}}{{b}}\" } ]\n",
			"prompts/none.yaml", "messages: [ { role: user, content: hi } ]\n",
			"endpoints/e.yaml", "prompt: whole\n",
		}
	}
	old := workspace(t, files("{ deep: { rpm: 2 } }")...)
	for value, want := range map[string][]string{
		"{ deep: { rpm: 2 } }":           nil,
		"{ deep: { rpm: 3 } }":           {"affected prompt path [limits]", "affected prompt whole [limits]", "affected endpoint e []", "changed remoteconfig limits []"},
		"{ deep: {} }":                   {"affected prompt path [limits]", "affected prompt whole [limits]", "affected endpoint e []", "changed remoteconfig limits []"},
		"{ deep: { rpm: 2 }, other: 1 }": {"affected prompt whole [limits]", "affected endpoint e []", "changed remoteconfig limits []"},
	} {
		var got []string
		for _, d := range compareDirs(t, old, workspace(t, files(value)...)).Definitions {
			got = append(got, fmt.Sprintf("%s %s %s %v", d.Change, d.Kind, d.Key, d.Configs))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", value, d)
		}
	}
	// Of so small a share no example is found, and no proof that there is none.
	rare := func(value string) string {
		return workspace(t, "context.yaml", modelYAML,
			"remoteconfigs/rare.yaml", "type: string\ndefault: a\nrules: [ { id: r, split: { by: id, of: [ { value: "+value+", share: 0.001% } ] } } ]\n",
			"prompts/rare.yaml", "variables: { a: { config: rare } }\nmessages: [ { role: user, content: \"{{a}}\" } ]\n")
	}
	if got := summary(compareDirs(t, rare("b"), rare("c"))); got != "affected prompt rare []\nchanged remoteconfig rare [rules]\n  undecided\n" {
		t.Error(got)
	}
}

// TestCompareSchedule finds changes that only come later.
func TestCompareSchedule(t *testing.T) {
	flag := func(from string) string {
		return workspace(t, "context.yaml", modelYAML, "remoteconfigs/c.yaml", "type: boolean\ndefault: false\nrules: [ { id: x, from: "+from+", value: true } ]\n")
	}
	c := compareDirs(t, flag("2026-12-01"), flag("2026-12-24"))
	if len(c.Definitions) != 1 || len(c.Definitions[0].Answers) != 1 {
		t.Fatalf("got %s", summary(c))
	}
	at := c.Definitions[0].Answers[0].At
	if at == nil || at.Before(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)) || !at.Before(time.Date(2026, 12, 24, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("the example is at %v", at)
	}
}

func TestComparePrompt(t *testing.T) {
	p := func(row, text string) string {
		return workspace(t, "context.yaml", modelYAML, "prompts/p.yaml", "default: a\nvariants:\n  a: { messages: [ { role: user, content: "+text+" } ] }\n  b: { extends: a }\ncolumns: [ locale, value ]\nmatrix:\n- ["+row+", b]\n")
	}
	got := summary(compareDirs(t, p("nl", "x"), p("nl-BE", "y")))
	want := "changed prompt p [matrix variants.a.messages variants.b.messages]\n  {\"locale\":\"nl\"}: \"b\" (row 1) -> \"a\" (default)\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCompareErrors(t *testing.T) {
	good := workspace(t, "remoteconfigs/c.yaml", "type: boolean\ndefault: true\n")
	bad := workspace(t, "remoteconfigs/c.yaml", "type: bolean\n")
	for _, dirs := range [][2]string{{good, bad}, {bad, good}, {good, good + "/nowhere"}} {
		if _, err := compareFolders(dirs[0], dirs[1]); err == nil {
			t.Errorf("%v: no error", dirs)
		} else if _, ok := errors.AsType[*document.MultiError](err); !ok {
			t.Errorf("%v: %T", dirs, err)
		}
	}
}

// TestCompareRandom compares random tables and holds the result against all
// contexts of a grid that is finer than the tables.
func TestCompareRandom(t *testing.T) {
	random, pick := randomly(t)
	row := func() string {
		return fmt.Sprintf("- [ %s, %s, %s, %s, %s, %d ]\n",
			pick("any", "any", "free", "[pro, team]", "not pro", "missing"),
			pick("any", "nl", "nl-BE", "[de, fr]", "not nl"),
			pick("any", "10..20", "5..<10", "7", "15..", "..6", "present"),
			pick("any", "any", "true", "false"),
			pick("any", "any", "any", "a", "{ all: [a, b] }", "{ none: [a] }"), random.IntN(4))
	}
	table := func(rows []string) string {
		return workspace(t, "context.yaml", modelYAML, "remoteconfigs/c.yaml",
			"type: number\ndefault: 0\ncolumns: [ plan, locale, seats, beta, tags, value ]\nmatrix:\n"+strings.Join(rows, ""))
	}
	contexts := grid()
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	differed := 0
	for range rounds {
		var rows []string
		for range 1 + random.IntN(6) {
			rows = append(rows, row())
		}
		edited := append([]string(nil), rows...)
		edited[random.IntN(len(edited))] = row()
		oldDir, newDir := table(rows), table(edited)
		c := compareDirs(t, oldDir, newDir)
		found := len(c.Definitions) > 0 && len(c.Definitions[0].Answers) > 0
		witness := answersDiffer(t, oldDir, newDir, contexts, (*rules.Model).Bind)
		if found != (witness != "") {
			t.Errorf("found %t, but %q differs:\n%s\n%s", found, witness, strings.Join(rows, ""), strings.Join(edited, ""))
		}
		if found {
			differed++
		}
		if len(c.Definitions) > 0 && c.Definitions[0].Undecided {
			t.Errorf("not decided:\n%s\n%s", strings.Join(rows, ""), strings.Join(edited, ""))
		}
	}
	if differed == 0 {
		t.Error("no pair of tables differed: the test proves nothing")
	}
}

// randomly returns a source of random numbers, and what picks a text by it. It prints
// the seed.
func randomly(t *testing.T) (random *rand.Rand, pick func(of ...string) string) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random = rand.New(rand.NewPCG(seed, 0))
	return random, func(of ...string) string { return of[random.IntN(len(of))] }
}

// TestCompareRandomIndirect compares random tables whose rows ask for segments, computed
// fields and another configuration, or have splits, with edits of each. What no example
// shows must be said not to be decided.
func TestCompareRandomIndirect(t *testing.T) {
	random, pick := randomly(t)
	row := func() string {
		cells := strings.Fields(strings.Join([]string{
			pick("", "plan:free", "plan:[pro,team]", "plan:not_pro", "plan:missing"), pick("", "locale:nl", "locale:[de,fr]"), pick("", "seats:10..20", "seats:..6"),
			pick("", "tags:a", "tags:{all:[a,b]}", "tags:{none:[a]}"), pick("", "segment:staff", "segment:not_staff"), pick("", "", "big:true", "big:false"),
			pick("", "", "config:{base:true}", "config:{base:false}"),
		}, " "))
		random.Shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
		when := strings.NewReplacer(":", ": ", "_", " ").Replace(strings.Join(cells[:min(len(cells), 3)], ", "))
		answer := fmt.Sprintf("value: %d", random.IntN(4))
		if random.IntN(5) == 0 {
			answer = fmt.Sprintf("split: { by: id, salt: %s, of: [ { value: %d, share: %s } ] }", pick("x", "y"), random.IntN(4), pick("20%", "100%"))
		}
		return fmt.Sprintf("- { id: r%d, when: { %s }, %s }\n", random.IntN(1e9), when, answer)
	}
	contexts := grid()
	shown, decided, rounds := 0, 0, 100
	if testing.Short() {
		rounds = 20
	}
	for range rounds {
		var rows []string
		for range 1 + random.IntN(6) {
			rows = append(rows, row())
		}
		edited, model, base := slices.Clone(rows), modelYAML, "plan: pro"
		switch random.IntN(4) {
		case 0:
			base = pick("plan: team", "seats: 5..", "segment: staff")
		case 1:
			model = strings.Replace(model, pick("beta: true", "locale: nl, ", "all: [a, b]", ">= 100"), pick("beta: false", "plan: pro", "any: [b]", "< 9.0"), 1)
		default:
			edited[random.IntN(len(edited))] = row()
		}
		dir := func(model, base string, rows []string) string {
			return workspace(t, "context.yaml", model, "remoteconfigs/base.yaml", "type: boolean\ndefault: false\nrules: [ { when: { "+base+" }, value: true } ]\n",
				"remoteconfigs/c.yaml", "type: number\ndefault: 0\nrules:\n"+strings.Join(rows, ""))
		}
		oldDir, newDir := dir(modelYAML, "plan: pro", rows), dir(model, base, edited)
		if _, err := definition.Load(newDir); err != nil {
			continue // the edit of the data model is a mistake
		}
		var change Change
		for _, d := range compareDirs(t, oldDir, newDir).Definitions {
			if d.Key == "c" {
				change = d
			}
		}
		differs := answersDiffer(t, oldDir, newDir, contexts, (*rules.Model).Bind)
		switch {
		case len(change.Answers) > 0:
			shown++
		case differs != "" && !change.Undecided:
			t.Errorf("%s differs, of which nothing is said:\n%s\n%s\n%s\n%s", differs, model, base, strings.Join(rows, ""), strings.Join(edited, ""))
		}
		if !change.Undecided {
			decided++
		}
	}
	if shown < rounds/4 || decided < rounds/8 {
		t.Errorf("of %d edits, %d are shown and %d decided", rounds, shown, decided)
	}
}

// answersDiffer returns the first context for which the remote configuration c has other
// answers in two directories; empty: there is none.
func answersDiffer(t testing.TB, oldDir, newDir string, contexts []string, bind func(*rules.Model, *rules.Binding, *fastjson.Value, time.Time) error) string {
	t.Helper()
	old, edit := load(t, oldDir), load(t, newDir)
	for _, context := range contexts {
		var x, y rules.Binding
		v := fastjson.MustParse(context)
		if bind(old.Model, &x, v, now) != nil || bind(edit.Model, &y, v, now) != nil {
			t.Fatal(context)
		}
		a, _ := old.RemoteConfigs["c"].Evaluate(&x)
		b, _ := edit.RemoteConfigs["c"].Evaluate(&y)
		if string(a) != string(b) {
			return context
		}
	}
	return ""
}

// grid is all combinations of a few values of each field.
func grid() []string {
	var out []string
	for _, plan := range []string{"", `"free"`, `"pro"`, `"team"`} {
		for _, locale := range []string{"", `"nl"`, `"nl-BE"`, `"de"`, `"fr-FR"`, `"en"`} {
			for _, seats := range []string{"", "4", "5", "6", "7", "9.5", "10", "15", "20", "21"} {
				for _, beta := range []string{"", "true", "false"} {
					for _, tags := range []string{"", `"a"`, `"b"`, `["a","b"]`, `["b","c"]`} {
						context := `{"x":0`
						for name, v := range map[string]string{"plan": plan, "locale": locale, "seats": seats, "beta": beta, "tags": tags} {
							if v != "" {
								context += `,"` + name + `":` + v
							}
						}
						out = append(out, context+"}")
					}
				}
			}
		}
	}
	return out
}

func BenchmarkCompare(b *testing.B) {
	table := func(changed int) string {
		var rows strings.Builder
		for i := range 1000 {
			value := i
			if i == changed {
				value = -1
			}
			fmt.Fprintf(&rows, "- [ %s, %d..%d, %d ]\n", []string{"free", "pro", "team", "any"}[i%4], i*3, i*3+200, value)
		}
		return workspace(b, "context.yaml", modelYAML, "remoteconfigs/c.yaml",
			"type: number\ndefault: 0\ncolumns: [ plan, seats, value ]\nmatrix:\n"+rows.String())
	}
	oldDir, newDir := table(-1), table(500)
	before, after, err := definition.LoadVersions(definition.Place{Dir: oldDir}, definition.Place{Dir: newDir})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		c := CompareSnapshots(before, after, now)
		if len(c.Definitions) != 1 || len(c.Definitions[0].Answers) == 0 {
			b.Fatal(summary(c))
		}
	}
}

// TestExplainedContext holds that an explanation names what the data model does
// not take, whatever it does with it.
func TestExplainedContext(t *testing.T) {
	for _, policy := range []string{"ignore", "warn"} {
		s := load(t, workspace(t,
			"context.yaml", "on_unknown_field: "+policy+"\nfields:\n  plan: { type: string, values: [free, pro] }\n  need: { type: string, required: true }\n",
			"remoteconfigs/on.yaml", "type: boolean\ndefault: false\ncolumns: [ plan, value ]\nmatrix:\n  - [ pro, true ]\n",
		))
		context := fastjson.MustParse(`{"plna":"pro","plan":"por"}`)
		a, err := Evaluate(s, Query{Key: "on", Context: context, Explain: true})
		want := []string{
			`context.plna is not a field of the data model: did you mean "plan"?`,
			`context.plan must be one of free, pro, this is "por": did you mean "pro"?`,
			"context.need is required, and missing",
		}
		if err != nil || !slices.Equal(a.Notes, want) {
			t.Errorf("%s: %v %q", policy, err, a.Notes)
		}
		a, err = Evaluate(s, Query{Key: "on", Context: context})
		if err != nil || slices.Contains(a.Notes, want[0]) || len(a.Notes) == 0 {
			t.Errorf("%s, not explained: %v %q", policy, err, a.Notes)
		}
	}
}
