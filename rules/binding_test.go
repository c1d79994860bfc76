package rules

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fastjson"
)

func TestBindNoContext(t *testing.T) {
	m := model(t, everyField)
	tab := table(t, m, "rules: [{ value: x }]")
	var b Binding
	if !b.NoContext() {
		t.Error("the zero binding has a context")
	}
	want := Decision{Row: -1, Outcome: -1, Reason: NoContext}
	if got := tab.Evaluate(&b); got != want {
		t.Errorf("zero binding: got %v", got)
	}
	for _, v := range []*fastjson.Value{nil, parseJSON(t, "null"), parseJSON(t, "{}")} {
		if err := m.Bind(&b, v, noon); err != nil || !b.NoContext() {
			t.Errorf("%v is a context (%v)", v, err)
		}
		if got := tab.Evaluate(&b); got != want {
			t.Errorf("%v: got %v", v, got)
		}
		if e := tab.Explain(&b); len(e.Rows) != 0 || e.String() != "default: no context was given" {
			t.Errorf("%v: explained as %v", v, e)
		}
	}
	if err := m.Bind(&b, parseJSON(t, `{"unheard_of":1}`), noon); err != nil || b.NoContext() {
		t.Errorf("a context without known fields is none (%v)", err)
	}
	if err := m.Bind(&b, parseJSON(t, `[1]`), noon); err == nil || err.Error() != "context must be an object" {
		t.Errorf("a list is a context: %v", err)
	}
	other := model(t, everyField)
	if got := table(t, other, "rules: [{ value: x }]").Evaluate(bind(t, m, `{"a":1}`)); got != want {
		t.Errorf("binding to another model: got %v", got)
	}
}

func TestBindNotes(t *testing.T) {
	fields := "fields:\n  n: { type: number, max: 10 }\n  s: { type: string, values: [a, b] }\n  v: { type: string, format: semver }\n" +
		"  l: { type: list, values: [x, y] }\n  exact: { type: number, coerce: false }\n  d: { type: date }\n"
	tests := []struct {
		model, context string
		want           []Note
	}{
		{fields, `{"n":5,"s":"a","v":"1.0.0","l":["x"],"d":"2026-01-01"}`, nil},
		{fields, `{"n":null,"s":null,"l":[],"other":1}`, nil},
		{fields, `{"n":"x","s":7,"v":1.1,"l":{},"d":"1 May"}`, []Note{
			{"n", NoteTypeMismatch}, {"s", NoteValueNotAllowed}, {"v", NoteTypeMismatch}, {"l", NoteTypeMismatch}, {"d", NoteTypeMismatch}}},
		{fields, `{"n":11,"s":"c","l":["x","z"]}`, []Note{
			{"n", NoteValueNotAllowed}, {"s", NoteValueNotAllowed}, {"l", NoteValueNotAllowed}}},
		{fields, `{"exact":"5"}`, []Note{{"exact", NoteTypeMismatch}}},
		{fields, `{"exact":5}`, nil},
		{fields, `{"n":[1,2]}`, []Note{{"n", NoteTypeMismatch}}},
		{fields, `{"n":[[1]]}`, []Note{{"n", NoteTypeMismatch}}},
		{fields, `{"d":1e300,"n":-1e400}`, []Note{{"d", NoteTypeMismatch}, {"n", NoteTypeMismatch}}},
		{fields + "on_unknown_field: warn", `{"other":1,"n":1}`, []Note{{"other", NoteUnknownField}}},
		{"fields: { r: { type: string, required: true } }", `{"x":1}`, []Note{{"r", NoteRequiredMissing}}},
		{"fields: { r: { type: string, required: true } }", `{"r":"x"}`, nil},
	}
	for _, tt := range tests {
		b := bind(t, model(t, tt.model), tt.context)
		if diff := cmp.Diff(tt.want, b.Notes()); diff != "" {
			t.Errorf("%s: %s", tt.context, diff)
		}
	}
}

func TestBindRefuses(t *testing.T) {
	const strict = "on_unknown_field: reject\non_type_mismatch: reject\nfields:\n" +
		"  seats: { type: number, min: 1 }\n  plan: { type: string, values: [a] }\n  beta: boolean\n  tags: list\n  app: { type: string, format: semver }\n  since: date\n"
	tests := []struct{ model, context, field, message string }{
		{strict, `{"seat":1}`, "seat", "context.seat is not a field of the data model: did you mean seats?"},
		{strict, `{"quite_another":1}`, "quite_another", "context.quite_another is not a field of the data model"},
		{strict, `{"seats":"many"}`, "seats", `context.seats must be a number, this is "many"`},
		{strict, `{"seats":{"a":1}}`, "seats", `context.seats must be a number, this is an object`},
		{strict, `{"seats":true}`, "seats", `context.seats must be a number, this is true`},
		{strict, `{"seats":0}`, "seats", `context.seats has a value that its declaration does not allow: 0`},
		{strict, `{"plan":"b"}`, "plan", `context.plan has a value that its declaration does not allow: "b"`},
		{strict, `{"beta":[]}`, "beta", `context.beta must be true or false, this is a list`},
		{strict, `{"tags":{}}`, "tags", `context.tags must be a list of text, this is an object`},
		{strict, `{"app":"one"}`, "app", `context.app must be a version such as 2.1.3, this is "one"`},
		{strict, `{"since":"x"}`, "since", `context.since must be a date such as 2026-01-31 or 2026-01-31T12:00:00Z, this is "x"`},
		{"on_type_mismatch: reject\nfields: { r: { type: number, required: true } }", `{"x":1}`, "r", "context.r is required: give a number"},
	}
	for _, tt := range tests {
		var b Binding
		err := model(t, tt.model).Bind(&b, parseJSON(t, tt.context), noon)
		got, ok := err.(*BindError)
		if !ok || got.Field != tt.field || got.Message != tt.message {
			t.Errorf("%s: got %#v", tt.context, err)
		}
	}
	m := model(t, strict)
	if b := bind(t, m, `{"seats":null,"tags":[],"plan":"a"}`); b.Notes() != nil {
		t.Errorf("a right context has notes: %v", b.Notes())
	}
}

// A reused binding must not remember anything.
func TestBindReuse(t *testing.T) {
	m := model(t, everyField+"computed:\n  many: seats > 10\n")
	tab := table(t, m, "columns: [plan, tags, many, segment, value]\nmatrix:\n  - [missing, missing, missing, not staff, none]\n  - [pro, any, any, any, pro]\n")
	var b Binding
	for range 3 {
		for _, tt := range []struct{ context, want string }{
			{`{"plan":"pro","city":"GENT","tags":["employee","b"],"seats":20,"nope":true,"since":"x"}`, "pro"},
			{`{"other":1}`, "none"},
		} {
			if err := m.Bind(&b, parseJSON(t, tt.context), noon); err != nil {
				t.Fatal(err)
			}
			if got := outcome(tab, tab.Evaluate(&b)); got != tt.want {
				t.Errorf("%s: got %s, want %s", tt.context, got, tt.want)
			}
		}
		if b.Notes() != nil {
			t.Errorf("notes of an earlier context: %v", b.Notes())
		}
	}
}

func TestBindAndEvaluateDoNotAllocate(t *testing.T) {
	m := model(t, everyField)
	small := table(t, m, "columns: [env, locale, seats, app, ip, since, tags, segment, value]\nmatrix:\n"+
		"  - [staging, any, any, any, any, any, any, any, a]\n  - [production, nl, 10..20, ^2.1, 10.0.0.0/8, 2026-01-01.., [x, y], staff, b]\n")
	large := table(t, m, "columns: [env, locale, seats, app, ip, since, tags, segment, value]\nmatrix:\n"+
		strings.Repeat("  - [staging, any, any, any, any, any, any, any, a]\n", 70)+
		"  - [production, nl, 10..20, ^2.1, 10.0.0.0/8, 2026-01-01.., [x, y], staff, b]\n")
	split := table(t, m, "rules: [{ id: half, split: { by: seats, of: [{ value: x, share: 100% }] } }]")
	v := parseJSON(t, `{"env":"production","locale":"NL-BE","city":"Gent","seats":"12","app":"v2.3.4-rc.1","ip":"10.1.2.3","since":"2026-05-01T12:00:00+02:00","tags":["a",7,"x","employee"],"unknown":[]}`)
	var (
		b   Binding
		key []byte
	)
	for _, tab := range []*Table{small, large, split} {
		allocs := testing.AllocsPerRun(100, func() {
			if err := m.Bind(&b, v, noon); err != nil {
				t.Fatal(err)
			}
			if d := tab.Evaluate(&b); d.Row < 0 {
				t.Fatal("no row matches")
			}
			key = tab.AppendKey(key[:0], &b)
		})
		if allocs != 0 {
			t.Errorf("%d rows: %v allocations", len(tab.Rows()), allocs)
		}
	}
}

func TestComputed(t *testing.T) {
	m := model(t, `
fields: { seats: number, plan: { type: string, ignore_case: true }, beta: boolean, tags: list, since: date }
computed:
  big: seats >= 100 && plan == "Pro"
  bigger: big || beta
  known: present(seats) && !present(plan)
  per: { expr: seats / 2.0, max: 50 }
  name: { expr: plan + "-x", ignore_case: true }
  labels: tags.map(t, "l-" + t)
  has_vip: tags.exists(t, t.startsWith("vip"))
  next_year: since + duration("8760h")
  year: since.getFullYear()
  broken: 1 / int(seats) > 0
  slow: tags.exists(a, tags.exists(b, tags.exists(c, a + b + c == "nothing")))
segments:
  large: [ { big: true } ]
`)
	tests := []struct {
		cells          string
		context        string
		matches        bool
		notes          []Note
		explainedValue string
	}{
		{cells: `big: true`, context: `{"seats":100,"plan":"Pro"}`, matches: true},
		{cells: `big: true`, context: `{"seats":100,"plan":"pro"}`, explainedValue: "false"},
		{cells: `big: true`, context: `{"seats":100}`, explainedValue: "missing"},
		{cells: `big: false`, context: `{"seats":1}`, matches: true}, // false && error is false
		{cells: `big: missing`, context: `{"plan":"Pro"}`, matches: true},
		{cells: `bigger: true`, context: `{"beta":true}`, matches: true}, // error || true is true
		{cells: `bigger: true`, context: `{"seats":200,"plan":"Pro"}`, matches: true},
		{cells: `known: true`, context: `{"seats":1}`, matches: true},
		{cells: `known: false`, context: `{"plan":"x"}`, matches: true},
		{cells: `per: 10..20`, context: `{"seats":30}`, matches: true},
		{cells: `per: missing`, context: `{"seats":300}`, matches: true, notes: []Note{{"per", NoteValueNotAllowed}}},
		{cells: `name: PRO-X`, context: `{"plan":"Pro"}`, matches: true},
		{cells: `labels: l-a`, context: `{"tags":["b","a"]}`, matches: true},
		{cells: `has_vip: true`, context: `{"tags":["b","vip1"]}`, matches: true},
		{cells: `next_year: 2027-01-01`, context: `{"since":"2026-01-01T10:00:00Z"}`, matches: true},
		{cells: `year: 2026`, context: `{"since":"2026-01-01T10:00:00Z"}`, matches: true},
		{cells: `broken: missing`, context: `{"seats":0}`, matches: true, notes: []Note{{"broken", NoteComputedFailed}}},
		{cells: `broken: missing`, context: `{"plan":"x"}`, matches: true},
		{cells: `segment: large`, context: `{"seats":100,"plan":"Pro"}`, matches: true},
		{cells: `segment: large`, context: `{"seats":99,"plan":"Pro"}`, explainedValue: "not large (big must be true, is false)"},
		{cells: `slow: missing`, context: `{"tags":[` + strings.Repeat(`"a",`, 200) + `"a"]}`, matches: true, notes: []Note{{"slow", NoteComputedFailed}}},
	}
	for _, tt := range tests {
		tab := table(t, m, "rules: [{ when: { "+tt.cells+" }, value: x }]")
		b := bind(t, m, tt.context)
		if got := tab.Evaluate(b).Row == 0; got != tt.matches {
			t.Errorf("%s: match is %v for %.80s", tt.cells, got, tt.context)
		}
		if diff := cmp.Diff(tt.notes, b.Notes()); diff != "" {
			t.Errorf("%s: notes %s", tt.cells, diff)
		}
		if e := tab.Explain(b); tt.explainedValue != "" && e.Rows[0].Failure.Value != tt.explainedValue {
			t.Errorf("%s: explained by %s", tt.cells, e.Rows[0].Failure.Value)
		}
	}
	tab := table(t, m, "columns: [bigger, value]\nmatrix: [[true, x]]")
	if diff := cmp.Diff([]string{"seats", "plan", "beta"}, tab.Fields()); diff != "" {
		t.Errorf("fields behind a computed field: %s", diff)
	}
}

func TestNumberKeySorts(t *testing.T) {
	numbers := []float64{-math.MaxFloat64, -1e10, -1.5, -1, -math.SmallestNonzeroFloat64, 0, math.SmallestNonzeroFloat64, 0.5, 1, 2, 1e300, math.MaxFloat64}
	for i, a := range numbers {
		if numberOf(numberKey(a)) != a {
			t.Errorf("%v comes back as %v", a, numberOf(numberKey(a)))
		}
		if i > 0 && numberKey(numbers[i-1]) >= numberKey(a) {
			t.Errorf("%v does not sort below %v", numbers[i-1], a)
		}
	}
	if numberKey(math.Copysign(0, -1)) != numberKey(0) {
		t.Error("-0 is not 0")
	}
}

// FuzzBind binds arbitrary JSON to a model with every kind of field and
// evaluates every kind of cell on it.
func FuzzBind(f *testing.F) {
	for _, s := range []string{
		`{"plan":"pro","seats":12,"beta":"true","since":"2026-01-31","app":"2.1.3-rc.1+5","ip":"::ffff:10.0.0.1","tags":["a",1,null,true]}`,
		`{"locale":"NL-be","city":"\u212a","since":1769817600000.5,"seats":"1e3","tags":"x"}`,
		`{"plan":1.10,"seats":1e999,"since":-1e300,"app":"v1","ip":"fe80::1%eth0","tags":[[1]],"plan":{}}`,
		`{"city":"\ud800","app":"1.0.0-","tags":[],"seats":-0}`, `null`, `{}`, `[]`,
	} {
		f.Add(s)
	}
	m := model(f, everyField+"computed:\n  c: tags.exists(t, t == plan) || seats > 1.0 || city.matches('^x')\n")
	tab := table(f, m, "columns: [env, locale, plan, city, seats, beta, since, app, ip, tags, c, segment, value]\nmatrix:\n"+
		"  - [not production, \"*-BE\", /x/, \"*y*\", 1..2, true, 2026-01-01.., ^1, 10.0.0.0/8, {all: [a, b*]}, true, staff, 1]\n"+
		"  - [missing, not nl, {none: [a, b]}, not a*, not 5, missing, not 2026-01-01, not ~2, {not: \"::/0\"}, {none: [a], size: 2..}, not true, not staff, 2]\n")
	f.Fuzz(func(t *testing.T, text string) {
		v, err := fastjson.Parse(text)
		if err != nil || v.Type() != fastjson.TypeObject && v.Type() != fastjson.TypeNull {
			return
		}
		var b Binding
		if err := m.Bind(&b, v, noon); err != nil {
			t.Fatalf("a lenient model refuses: %v", err)
		}
		d := tab.Evaluate(&b)
		if e := tab.Explain(&b); e.Decision != d {
			t.Fatalf("explained as %v instead of %v", e.Decision, d)
		}
		tab.AppendKey(nil, &b)
		checkRecord(t, tab, &b, d)
		for slot := range int32(len(b.values)) {
			b.appendValue(nil, slot)
		}
	})
}

// checkRecord records a decision, which must be of the row and the arm it has, and
// JSON.
func checkRecord(t *testing.T, tab *Table, b *Binding, d Decision) {
	t.Helper()
	var tr Trail
	tab.AppendTrail(&tr, b)
	for name, text := range map[string][]byte{"splits": tr.AppendSplits(nil, b, fixedHash), "inputs": tab.AppendInputs(nil, b, tr.Asked, fixedHash)} {
		if text != nil && fastjson.ValidateBytes(text) != nil {
			t.Fatalf("%s: %s", name, text)
		}
	}
	last := Consulted{Row: -1}
	if len(tr.Splits) > 0 {
		last = tr.Splits[len(tr.Splits)-1]
	}
	if d.Reason == Split && (last.Row != d.Row || last.Arm != tab.Arm(d)) || d.Reason != Split && last.Arm != "" {
		t.Fatalf("the decision is %v, the last split %v", d, last)
	}
}

// FuzzModelAndTable decodes arbitrary documents: no input may panic, and a
// document without mistakes must evaluate.
func FuzzModelAndTable(f *testing.F) {
	f.Add(everyField, "columns: [plan, seats, value]\nmatrix: [[pro, 10.., x]]")
	f.Add("fields: { a: { type: list, values: [x] } }\ncomputed: { b: size(a) }", "rules: [{ id: r, when: { a: { size: 1.. }, b: not 2 }, ramp: { start: 2026-01-01, end: 2026-02-01, by: a }, value: 1 }]")
	f.Add("fields: { plan: { type: string, trace: value }, a: { type: list, trace: none }, seats: number }\ncomputed: { b: plan + a[0] }", "rules: [{ id: r, split: { by: seats, of: [{ value: 1, share: 1% }, { value: 2, share: 2%, name: x }] } }, { id: s, when: { plan: pro }, split: { by: b, salt: t, of: [{ value: 1, share: 100% }] } }]")
	f.Add("segments: { s: [ { segment: { none: [s] } } ] }", "hit: unique\nrules: [{ when: { segment: [s, not s] }, from: 2026-01-01, until: 2026-01-01, value: 1 }]")
	f.Fuzz(func(t *testing.T, context, definition string) {
		var errs document.Errors
		m := DecodeModel(document.Parse("context.yaml", []byte(context), &errs), nil, &errs)
		tab := DecodeTable(m, document.Parse("flag.yaml", []byte(definition), &errs), Options{Key: "flag"}, &errs)
		var b Binding
		if err := m.Bind(&b, fastjson.MustParse(`{"a":["x"],"plan":"pro","seats":11}`), noon); err != nil {
			return
		}
		if errs.Len() > 0 {
			mistakes(&errs)
			return
		}
		d := tab.Evaluate(&b)
		if e := tab.Explain(&b); e.Decision != d {
			t.Fatalf("explained as %v instead of %v", e.Decision, d)
		}
		tab.AppendKey(nil, &b)
		checkRecord(t, tab, &b, d)
		tab.Fields()
		if tab.Cost() < 0 {
			t.Fatal("negative cost")
		}
		tab.Analyse(Analysis{Now: noon, Budget: 100_000, Overlaps: true, Gaps: true})
	})
}

func TestBindTimeZones(t *testing.T) {
	m := model(t, "timezone: America/New_York\nfields: { d: date }")
	b := bind(t, m, `{"d":"2026-03-08"}`) // 23 hours long there
	if got, want := b.values[0].key, time.Date(2026, 3, 8, 5, 0, 0, 0, time.UTC).UnixMicro(); got != want {
		t.Errorf("the day begins at %d, want %d", got, want)
	}
	tab := table(t, m, "columns: [d, value]\nmatrix: [[2026-03-08, x]]")
	for context, want := range map[string]string{
		`{"d":"2026-03-09T03:59:59Z"}`: "x",
		`{"d":"2026-03-09T04:00:00Z"}`: "default",
	} {
		if got := outcome(tab, tab.Evaluate(bind(t, m, context))); got != want {
			t.Errorf("%s: got %s, want %s", context, got, want)
		}
	}
}
