package rules

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/google/go-cmp/cmp"
)

func TestTableLayouts(t *testing.T) {
	m := model(t, everyField)
	matrix := table(t, m, `
columns: [id, env, plan, from, until, value]
matrix:
  - [first, production, [pro, team], ~, ~, a]
  - [~, staging, any, 2026-06-01, 2026-06-01, b]
  - [~, any, free, ~, ~, { c: 1 }]
`)
	rules := table(t, m, `
hit: unique
rules:
  - { id: first, when: { env: production, plan: [pro, team] }, value: a }
  - { when: { env: staging }, from: 2026-06-01, until: 2026-06-01, value: b }
  - { when: { plan: free }, value: { c: 1 } }
`)
	if matrix.unique || !rules.unique {
		t.Error("hit: unique is not what the table says")
	}
	for name, tab := range map[string]*Table{"matrix": matrix, "rules": rules} {
		var ids []string
		for _, r := range tab.Rows() {
			ids = append(ids, r.ID)
		}
		if diff := cmp.Diff([]string{"first", "row 2", "row 3"}, ids); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if len(tab.Outcomes()) != 3 || tab.Outcomes()[2].Get("c") == nil {
			t.Errorf("%s: outcomes %v", name, tab.Outcomes())
		}
		for context, want := range map[string]Decision{
			`{"env":"production","plan":"pro"}`:  {0, 0, Match},
			`{"env":"staging"}`:                  {1, 1, Match},
			`{"env":"production","plan":"free"}`: {2, 2, Match},
			`{"env":"production"}`:               {-1, -1, Default},
		} {
			if got := tab.Evaluate(bind(t, m, context)); got != want {
				t.Errorf("%s, %s: got %v, want %v", name, context, got, want)
			}
		}
	}
	var errs document.Errors
	empty := DecodeTable(m, parseYAML(t, "flag.yaml", "type: boolean"), Options{}, &errs)
	if errs.Len() > 0 {
		t.Error(mistakes(&errs))
	}
	if got := empty.Evaluate(bind(t, m, `{"env":"staging"}`)); got != (Decision{-1, -1, Default}) {
		t.Errorf("no table: got %v", got)
	}
}

func TestTableMistakes(t *testing.T) {
	m := model(t, everyField+"  id_like: [ { plan: a } ]\n")
	tests := []struct{ name, text, want string }{
		{"both layouts", "columns: [value]\nmatrix: []\nrules: []", `flag.yaml:3:8: a table is written as columns and matrix or as rules, not both`},
		{"no matrix", "columns: [value]", `flag.yaml:1:10: columns without a matrix: add the rows under matrix, or leave the columns out`},
		{"no columns", "matrix: []", `flag.yaml:1:9: a matrix without columns: name the fields its cells are about, with value as the last`},
		{"hit", "hit: uniqe", `flag.yaml:1:6: hit must be one of first, unique, this is "uniqe": did you mean "unique"?`},
		{"columns", "columns: plan\nmatrix: []", `flag.yaml:1:10: columns must be a list of names that ends with value`},
		{"unknown column", "columns: [plam, value]\nmatrix: []", `flag.yaml:1:11: unknown field "plam": did you mean "plan"?`},
		{"column twice", "columns: [plan, plan, value]\nmatrix: []", `flag.yaml:1:17: the column "plan" occurs twice`},
		{"value first", "columns: [value, plan]\nmatrix: []", "flag.yaml:1:11: value must be the last column\nflag.yaml:1:18: the last column must be value, this is \"plan\""},
		{"cells", "columns: [plan, value]\nmatrix:\n  - [a]\n  - [a, b, c]\n  - x", "flag.yaml:3:5: a row of the matrix must have 2 cells (plan, value), this has 1\nflag.yaml:4:5: a row of the matrix must have 2 cells (plan, value), this has 3\nflag.yaml:5:5: a row of the matrix must be a list of 2 cells (plan, value), this is a single value"},
		{"decimal comma", "columns: [plan, value]\nmatrix:\n  - [a, 3,95]\n  - [a, 1,000]\n  - [a, 1, 2]", "flag.yaml:3:5: a row of the matrix must have 2 cells (plan, value), this has 3: a comma ends a cell, write 3.95\nflag.yaml:4:5: a row of the matrix must have 2 cells (plan, value), this has 3: a comma ends a cell, write 1.000 or 1000\nflag.yaml:5:5: a row of the matrix must have 2 cells (plan, value), this has 3"},
		{"matrix", "columns: [value]\nmatrix: x", `flag.yaml:2:9: matrix must be a list of rows or the name of a CSV file, such as limits.csv, this is "x"`},
		{"rules", "rules: { a: b }", `flag.yaml:1:8: rules must be a list of rows, this is a mapping`},
		{"rule", "rules: [a]", `flag.yaml:1:9: a rule must be a mapping, this is "a"`},
		{"rule member", "rules: [{ wen: {}, value: 1 }]", `flag.yaml:1:11: unknown member "wen" in a rule: did you mean "when"?`},
		{"when", "rules: [{ when: x, value: 1 }]", `flag.yaml:1:17: when must be a mapping of fields to cells, this is a single value`},
		{"no value", "rules: [{ when: {} }]", `flag.yaml:1:9: a rule needs a value or a split, and not both`},
		{"value and split", "rules: [{ value: 1, split: {} }]", `flag.yaml:1:9: a rule needs a value or a split, and not both`},
		{"id twice", "rules: [{ id: a, value: 1 }, { id: a, value: 2 }]", `flag.yaml:1:36: the id "a" is that of another row too, at flag.yaml:1:15`},
		{"id", "rules: [{ id: row 1, value: 1 }]", `flag.yaml:1:15: "row 1" can't be an id: it must have 1 to 256 letters, digits and any of . _ : / -, and not be default`},
		{"default id", "rules: [{ id: default, value: 1 }]", `flag.yaml:1:15: "default" can't be an id: it must have 1 to 256 letters, digits and any of . _ : / -, and not be default`},
		{"from", "rules: [{ from: tomorrow, value: 1 }]", `flag.yaml:1:17: from must be a date such as 2026-12-01 or 2026-12-01T09:00:00+01:00, this is "tomorrow"`},
		{"until before from", "rules: [{ from: 2026-02-01, until: 2026-01-31, value: 1 }]", `flag.yaml:1:36: until is not after from: the row would never be active`},
		{"split member", "rules: [{ id: a, split: { by: plan, off: [] } }]", "flag.yaml:1:25: a split needs of: a list of {value, share}\nflag.yaml:1:37: unknown member \"off\" in a split: did you mean \"of\"?"},
		{"split without id", "rules: [{ split: { by: plan, of: [{ value: 1, share: 20% }] } }]", `flag.yaml:1:18: a split needs the id of its row: who falls into it is derived from the id, which therefore must not change`},
		{"split without by", "rules: [{ id: a, split: { of: [{ value: 1, share: 20% }] } }]", `flag.yaml:1:25: a split needs by: the field whose values it divides, such as customer_id`},
		{"split by", "rules: [{ id: a, split: { by: plam, of: [{ value: 1, share: 20% }] } }]", `flag.yaml:1:31: unknown field "plam": did you mean "plan"?`},
		{"split by list", "rules: [{ id: a, split: { by: tags, of: [{ value: 1, share: 20% }] } }]", `flag.yaml:1:31: by needs a string or number: tags is a list`},
		{"share", "rules: [{ id: a, split: { by: plan, of: [{ value: 1, share: 20 }] } }]", `flag.yaml:1:61: a share must be a percentage from 0% to 100% such as 20% or 0.125%, with at most three decimals, this is "20"`},
		{"fine share", "rules: [{ id: a, split: { by: plan, of: [{ value: 1, share: 0.0001% }] } }]", `flag.yaml:1:61: a share must be a percentage from 0% to 100% such as 20% or 0.125%, with at most three decimals, this is "0.0001%"`},
		{"shares", "rules: [{ id: a, split: { by: plan, of: [{ value: 1, share: 60% }, { value: 2, share: 40.001% }] } }]", `flag.yaml:1:87: the shares come to 100.001% with this one, more than 100%`},
		{"share member", "rules: [{ id: a, split: { by: plan, of: [{ value: 1, shar: 60% }] } }]", "flag.yaml:1:42: a share of a split needs a share such as 20%\nflag.yaml:1:54: unknown member \"shar\" in a share of a split: did you mean \"share\"?"},
		{"share named oddly", "rules: [{ id: a, split: { by: plan, of: [{ value: 1, share: 60%, name: a b }] } }]", `flag.yaml:1:72: "a b" can't be the name of a share: it must have 1 to 256 letters, digits and any of . _ : / -, and not be a number, which traces call the shares without a name by`},
		{"share named by a number", "rules: [{ id: a, split: { by: plan, of: [{ value: 1, share: 60%, name: 2 }] } }]", `flag.yaml:1:72: "2" can't be the name of a share: it must have 1 to 256 letters, digits and any of . _ : / -, and not be a number, which traces call the shares without a name by`},
		{"share named twice", "rules: [{ id: a, split: { by: plan, of: [{ value: 1, share: 6%, name: b }, { value: 1, share: 6%, name: b }] } }]", `flag.yaml:1:105: the name "b" is that of another share of the split, too`},
		{"share name's member", "rules: [{ id: a, split: { by: plan, of: [{ value: 1, share: 6%, nmae: b }] } }]", `flag.yaml:1:65: unknown member "nmae" in a share of a split: did you mean "name"?`},
		{"share value", "rules: [{ id: a, split: { by: plan, of: [{ share: 60% }] } }]", `flag.yaml:1:42: a share of a split needs a value`},
		{"ramp", "rules: [{ id: a, value: 1, ramp: { by: plan, from: 5%, start: 2026-01-01 } }]", `flag.yaml:1:34: a ramp needs a start and an end`},
		{"ramp to more than all", "rules: [{ id: a, value: 1, ramp: { by: plan, from: 5%, to: 500%, start: 2026-01-01, end: 2026-01-02 } }]", `flag.yaml:1:60: to must be a percentage from 0% to 100% such as 20% or 0.125%, with at most three decimals, this is "500%"`},
		{"split in a matrix", "columns: [split, value]\nmatrix: []", `flag.yaml:1:11: a matrix has no splits: write the table as rules`},
		{"ramp order", "rules: [{ id: a, value: 1, ramp: { by: plan, from: 50%, to: 5%, start: 2026-01-02, end: 2026-01-01 } }]", "flag.yaml:1:61: a ramp goes up, but to is below from\nflag.yaml:1:89: the end of a ramp must be after its start"},
		{"ramp without by", "rules: [{ id: a, value: 1, ramp: { start: 2026-01-01, end: 2026-01-02 } }]", `flag.yaml:1:34: a ramp needs by: the field whose values it divides, such as customer_id`},
		{"ramp and coverage", "rules: [{ id: a, ramp: { start: 2026-01-01, end: 2026-01-02 }, split: { by: plan, coverage: 5%, of: [{ value: 1, share: 5% }] } }]", `flag.yaml:1:93: coverage is given by the ramp already`},
		{"ramp by", "rules: [{ id: a, ramp: { by: seats, start: 2026-01-01, end: 2026-01-02 }, split: { by: plan, of: [{ value: 1, share: 5% }] } }]", `flag.yaml:1:30: the ramp goes by "seats", but the split by "plan"`},
		{"several", "columns: [plan, seats, value]\nmatrix:\n  - [/x(/, 1, a]\n  - [any, x, b]", "flag.yaml:3:6: invalid regular expression: missing closing ): `x(`\nflag.yaml:4:11: seats: \"x\" is not a number"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var errs document.Errors
			tab := DecodeTable(m, parseYAML(t, "flag.yaml", tt.text), Options{Key: "flag"}, &errs)
			if diff := cmp.Diff(tt.want, mistakes(&errs)); diff != "" {
				t.Error(diff)
			}
			tab.Evaluate(bind(t, m, `{"plan":"x"}`)) // must not panic
		})
	}
	conflict := model(t, "fields: { id: string, from: date }")
	var errs document.Errors
	DecodeTable(conflict, parseYAML(t, "flag.yaml", "columns: [id, value]\nmatrix: []"), Options{}, &errs)
	if want := `flag.yaml:1:11: the column "id" could be the row's or the field of that name: write the table as rules`; mistakes(&errs) != want {
		t.Errorf("got %s", mistakes(&errs))
	}
	tab := table(t, conflict, "rules: [{ when: { id: a }, value: 1 }]")
	if got := outcome(tab, tab.Evaluate(bind(t, conflict, `{"id":"a"}`))); got != "1" {
		t.Errorf("a field called id can't be used in rules: %s", got)
	}
}

func TestSchedule(t *testing.T) {
	m := model(t, "timezone: Europe/Brussels\nfields: { plan: string }")
	tab := table(t, m, `
rules:
  - { id: day, from: 2026-12-24, until: 2026-12-24, value: day }
  - { id: launch, from: 2026-12-01T09:00:00+01:00, value: launch }
  - { id: old, until: 2026-11-01T00:00:00Z, value: old }
`)
	if !tab.HasSchedule() {
		t.Error("no schedule")
	}
	if table(t, m, "columns: [plan, value]\nmatrix: [[a, b]]").HasSchedule() {
		t.Error("a table without dates has a schedule")
	}
	keys := make(map[string]string)
	for _, tt := range []struct{ at, want string }{
		{"2026-10-31T23:59:59Z", "old"},
		{"2026-11-01T00:00:00Z", "default"},
		{"2026-12-01T07:59:59.999Z", "default"},
		{"2026-12-01T08:00:00Z", "launch"},
		{"2026-12-23T22:59:59Z", "launch"},
		{"2026-12-23T23:00:00Z", "day"},
		{"2026-12-24T22:59:59Z", "day"},
		{"2026-12-24T23:00:00Z", "launch"},
	} {
		at, err := time.Parse(time.RFC3339, tt.at)
		if err != nil {
			t.Fatal(err)
		}
		b := bindAt(t, m, `{"plan":"x"}`, at)
		if got := outcome(tab, tab.Evaluate(b)); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.at, got, tt.want)
		}
		key := string(tab.AppendKey(nil, b))
		if other, ok := keys[key]; ok && other != tt.want {
			t.Errorf("%s: the key is that of %s", tt.at, other)
		}
		keys[key] = tt.want
	}
}

// The buckets are promised to users: they must never change.
func TestSplitBuckets(t *testing.T) {
	m := model(t, "fields: { customer_id: string, n: number }")
	for _, tt := range []struct {
		key, salt, context string
		by                 string
		want               uint32
	}{
		{"new_checkout", "ramp", `{"customer_id":"c-1"}`, "customer_id", 95218},
		{"new_checkout", "ramp", `{"customer_id":"c-2"}`, "customer_id", 65481},
		{"new_checkout", "ramp", `{"customer_id":""}`, "customer_id", 47221},
		{"new_checkout", "other", `{"customer_id":"c-1"}`, "customer_id", 75839},
		{"flag", "ramp", `{"n":42}`, "n", 53951},
		{"flag", "ramp", `{"n":42.50}`, "n", 31125},
	} {
		s := newSplit(m.slots[tt.by], tt.key, tt.salt)
		if got, ok := s.bucket(bind(t, m, tt.context)); got != tt.want || !ok {
			t.Errorf("%s, %s, %s: got %d, want %d", tt.key, tt.salt, tt.context, got, tt.want)
		}
	}
	if _, ok := newSplit(0, "a", "b").bucket(bind(t, m, `{"n":1}`)); ok {
		t.Error("a bucket without a unit")
	}
}

func TestSplitShares(t *testing.T) {
	m := model(t, "fields: { u: string }")
	decode := func(coverage string) *Table {
		return table(t, m, "rules: [{ id: s, split: { by: u, coverage: "+coverage+", of: [{ value: a, share: 20% }, { value: b, share: 0% }, { value: c, share: 30.5% }] } }]")
	}
	full, half, none := decode("100%"), decode("50%"), decode("0%")
	counts := make(map[string]int)
	const units = 20_000
	for i := range units {
		b := bind(t, m, fmt.Sprintf(`{"u":"u%d"}`, i))
		bucket, _ := full.answers[0].split.bucket(b)
		want, wantHalf := "default", "default"
		switch {
		case bucket < 20_000:
			want = "a"
		case bucket < 50_500:
			want = "c"
		}
		switch {
		case bucket < 10_000:
			wantHalf = "a"
		case bucket >= 20_000 && bucket < 20_000+15_250:
			wantHalf = "c"
		}
		d := full.Evaluate(b)
		if got := outcome(full, d); got != want {
			t.Fatalf("bucket %d: got %s, want %s", bucket, got, want)
		}
		if d.Row == 0 && d.Reason != Split {
			t.Fatalf("reason %s", d.Reason)
		}
		if got := outcome(half, half.Evaluate(b)); got != wantHalf {
			t.Fatalf("bucket %d at half coverage: got %s, want %s", bucket, got, wantHalf)
		}
		if got := none.Evaluate(b).Row; got != -1 {
			t.Fatalf("bucket %d matches without coverage", bucket)
		}
		counts[want]++
	}
	for value, share := range map[string]float64{"a": 0.2, "c": 0.305, "default": 0.495} {
		if got := float64(counts[value]) / units; got < share-0.015 || got > share+0.015 {
			t.Errorf("%s got %.1f %% of the units, want %.1f %%", value, 100*got, 100*share)
		}
	}
	// Boundaries, exactly.
	s := full.answers[0].split
	if s.shares[1] != (share{from: 20_000, width: 30_500, outcome: 2}) {
		t.Errorf("second share %v", s.shares[1])
	}
}

func TestSplitIgnoresCase(t *testing.T) {
	m := model(t, "fields: { a: { type: string, ignore_case: true }, b: string }")
	for by, same := range map[string]bool{"a": true, "b": false} {
		s := newSplit(m.slots[by], "k", "s")
		x, _ := s.bucket(bind(t, m, `{"a":"Ab","b":"Ab"}`))
		y, _ := s.bucket(bind(t, m, `{"a":"aB","b":"aB"}`))
		if (x == y) != same {
			t.Errorf("%s: buckets %d and %d", by, x, y)
		}
	}
}

func TestRamp(t *testing.T) {
	m := model(t, "fields: { u: string }")
	tab := table(t, m, "rules: [{ id: r, ramp: { from: 5%, to: 95%, start: 2026-01-01T00:00:00Z, end: 2026-01-11T00:00:00Z, by: u }, value: on }]")
	r := tab.answers[0].split.ramp
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		after time.Duration
		want  uint32
	}{
		{-time.Nanosecond, 0}, {0, 5000}, {24 * time.Hour, 14_000}, {5 * 24 * time.Hour, 50_000},
		{10*24*time.Hour - time.Second, 94_999}, {10 * 24 * time.Hour, 95_000}, {1000 * time.Hour, 95_000},
	} {
		if got := r.at(dateKey(start.Add(tt.after))); got != tt.want {
			t.Errorf("after %s: got %d, want %d", tt.after, got, tt.want)
		}
	}
	if !tab.HasSchedule() {
		t.Error("no schedule")
	}
	// No unit that is in falls out again, and keys differ where decisions do.
	for i := range 200 {
		in := false
		keys := make(map[string]bool)
		for h := -2; h < 260; h += 7 {
			b := bindAt(t, m, fmt.Sprintf(`{"u":"u%d"}`, i), start.Add(time.Duration(h)*time.Hour))
			now := tab.Evaluate(b).Row == 0
			if in && !now {
				t.Fatalf("unit %d falls out after %d hours", i, h)
			}
			key := string(tab.AppendKey(nil, b))
			if was, ok := keys[key]; ok && was != now {
				t.Fatalf("unit %d: same key, another answer after %d hours", i, h)
			}
			keys[key], in = now, now
		}
	}
	long := &ramp{to: Buckets, start: minDate, end: maxDate}
	if got := long.at(0); got < 19_000 || got > 20_000 {
		t.Errorf("a ramp over 10,000 years is at %d in 1970", got)
	}
}

func TestRampOfSplit(t *testing.T) {
	m := model(t, "fields: { u: string }")
	tab := table(t, m, "rules: [{ id: r, ramp: { start: 2026-01-01T00:00:00Z, end: 2026-01-11T00:00:00Z }, split: { by: u, of: [{ value: a, share: 50% }, { value: b, share: 50% }] } }]")
	middle := time.Date(2026, 1, 6, 0, 0, 0, 0, time.UTC)
	for i := range 500 {
		b := bindAt(t, m, fmt.Sprintf(`{"u":"u%d"}`, i), middle)
		bucket, _ := tab.answers[0].split.bucket(b)
		want := "default"
		switch {
		case bucket < 25_000:
			want = "a"
		case bucket >= 50_000 && bucket < 75_000:
			want = "b"
		}
		if got := outcome(tab, tab.Evaluate(b)); got != want {
			t.Fatalf("bucket %d: got %s, want %s", bucket, got, want)
		}
	}
}

func TestPrerequisite(t *testing.T) {
	m := model(t, "fields: { plan: string, beta: boolean }")
	other := table(t, m, "rules: [{ when: { beta: true }, value: true }, { from: 2027-01-01, value: false }]")
	opts := Options{Key: "flag", Config: func(key, value *document.Node, errs *document.Errors) *Prerequisite {
		if key.Text != "other" {
			errs.Add(key, "unknown configuration %q", key.Text)
			return nil
		}
		p := &Prerequisite{Table: other, AcceptDefault: value.Text == "false"}
		for i, o := range other.Outcomes() {
			if o.Text == value.Text {
				p.Accept = append(p.Accept, i)
			}
		}
		return p
	}}
	var errs document.Errors
	def := parseYAML(t, "flag.yaml", "columns: [plan, config, value]\nmatrix:\n"+
		strings.Repeat("  - [nobody, { other: true }, no]\n", scanRows)+
		"  - [pro, { other: true }, yes]\n  - [pro, { other: false }, no]\n  - [any, any, rest]\n")
	tab := DecodeTable(m, def, opts, &errs)
	if err := errs.Err(); err != nil {
		t.Fatal(err)
	}
	scan := *tab
	scan.index = nil
	for context, want := range map[string]string{
		`{"plan":"pro","beta":true}`:  "yes",
		`{"plan":"pro","beta":false}`: "no",
		`{"plan":"pro"}`:              "no",
		`{"plan":"free","beta":true}`: "rest",
	} {
		b := bind(t, m, context)
		if got := outcome(tab, tab.Evaluate(b)); got != want {
			t.Errorf("%s: got %s, want %s", context, got, want)
		}
		if got := outcome(&scan, scan.Evaluate(b)); got != want {
			t.Errorf("%s, scanned: got %s, want %s", context, got, want)
		}
	}
	if diff := cmp.Diff([]string{"plan", "beta"}, tab.Fields()); diff != "" {
		t.Error(diff)
	}
	if !tab.HasSchedule() {
		t.Error("the schedule of a prerequisite is not the table's")
	}
	e := tab.Explain(bind(t, m, `{"plan":"pro"}`))
	if got, want := e.Rows[scanRows].String(), fmt.Sprintf("row %d: config must be {other: true}, is its default", scanRows+1); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	DecodeTable(m, parseYAML(t, "flag.yaml", "rules: [{ when: { config: { othr: true } }, value: 1 }]"), opts, &errs)
	if got, want := mistakes(&errs), `flag.yaml:1:29: unknown configuration "othr"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestExplain(t *testing.T) {
	m := model(t, everyField)
	tab := table(t, m, `
rules:
  - { id: staff, when: { segment: staff }, value: 1 }
  - { id: both, when: { segment: [staff, paying_staff] }, value: 1 }
  - { id: ranges, when: { env: production, seats: [..5, 20..], app: "^2.1" }, value: 1 }
  - { id: absent, when: { ip: not 10.0.0.0/8 }, value: 1 }
  - { id: dates, when: { since: 2026-01-01.. }, value: 1 }
  - { id: lists, when: { tags: { all: [a, "b"], size: ..3 } }, value: 1 }
  - { id: flag, when: { beta: not true }, value: 1 }
  - { id: later, from: 2026-12-01T09:00:00+01:00, value: 1 }
  - { id: window, from: 2025-01-01, until: 2025-12-31, value: 1 }
  - { id: split, split: { by: plan, of: [{ value: 1, share: 0.001% }] } }
  - { id: unit, split: { by: city, of: [{ value: 1, share: 100% }] } }
  - { id: grow, ramp: { by: plan, start: 2026-06-01, end: 2030-01-01, to: 1% }, value: 1 }
  - { id: match, when: { plan: "pro" }, value: 1 }
  - { id: rest, value: 1 }
`)
	b := bind(t, m, `{"env":"production","seats":12.50,"plan":"pro","since":"2025-06-01","beta":true,"tags":["a","c"],"app":"2.0"}`)
	e := tab.Explain(b)
	got := make([]string, len(e.Rows))
	for i, r := range e.Rows {
		got[i] = r.String()
	}
	want := []string{
		`staff: segment must be staff, is not staff (tags must be employee, is ["a", "c"]; ip must be 10.0.0.0/8, is missing)`,
		`both: segment must be [staff, paying_staff], is not staff (tags must be employee, is ["a", "c"]; ip must be 10.0.0.0/8, is missing), ` +
			`not paying_staff (segment must be {all: [staff, paying]}, is not staff)`,
		`ranges: seats must be [..5, 20..], is 12.5`,
		`absent: ip must be not 10.0.0.0/8, is missing`,
		`dates: since must be 2026-01-01.., is 2025-06-01T00:00:00+02:00`,
		`lists: tags must be {all: [a, "b"], size: ..3}, is ["a", "c"]`,
		`flag: beta must be not true, is true`,
		`later: from must be 2026-12-01T09:00:00+01:00, is 2026-06-01T14:00:00+02:00`,
		`window: from and until must be 2025-01-01 to 2025-12-31, is 2026-06-01T14:00:00+02:00`,
		`split: split must be {by: plan, of: [{value: 1, share: 0.001%}]}, is plan "pro" falls on 72.646%`,
		`unit: split must be {by: city, of: [{value: 1, share: 100%}]}, is city is missing`,
		`grow: ramp must be {by: plan, start: 2026-06-01, end: 2030-01-01, to: 1%}, is plan "pro" falls on 1.12%, the coverage is 0%`,
		`match: matches`,
		`rest: matches`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if e.String() != "match: match" || e.Decision.Row != 12 {
		t.Errorf("%s", e)
	}
	if got := e.Rows[2].Failure.Pos.String(); got != "flag.yaml:5:51" {
		t.Errorf("the cell stands at %s", got)
	}
}

func TestReasonNames(t *testing.T) {
	for r, want := range map[Reason]string{NoContext: "no_context", Default: "default", Match: "match", Split: "split", 0: "unknown", 99: "unknown"} {
		if r.String() != want {
			t.Errorf("%d is %s, want %s", r, r, want)
		}
	}
}

// Different values must give different keys, whatever they contain.
func TestAppendKeyIsUnambiguous(t *testing.T) {
	m := model(t, "fields: { a: string, b: string, l: list, n: number, t: boolean, unused: string }")
	tab := table(t, m, "columns: [a, b, l, n, t, value]\nmatrix: [[x, y, z, 1, true, v]]")
	seen := make(map[string]string)
	for _, context := range []string{
		`{"x":1}`, `{"a":""}`, `{"b":""}`, `{"a":"","b":""}`, `{"a":"x"}`, `{"a":"xy"}`, `{"a":"x","b":"y"}`, `{"a":"x\u0000","b":"y"}`, `{"a":"x","b":"\u0000y"}`,
		`{"l":["a","b"]}`, `{"l":["ab"]}`, `{"l":["a","","b"]}`, `{"l":["b","a"]}`, `{"n":1}`, `{"n":2}`, `{"t":true}`, `{"t":false}`,
	} {
		key := string(tab.AppendKey(nil, bind(t, m, context)))
		if other, ok := seen[key]; ok {
			t.Errorf("%s and %s have the same key", context, other)
		}
		seen[key] = context
	}
	a := tab.AppendKey(nil, bind(t, m, `{"a":"x","unused":"1"}`))
	b := tab.AppendKey(nil, bind(t, m, `{"a":"x","unused":"2","other":3}`))
	if string(a) != string(b) {
		t.Error("a field nobody reads changes the key")
	}
	if key := tab.AppendKey(nil, bind(t, m, `{}`)); string(key) == string(tab.AppendKey(nil, bind(t, m, `{"x":1}`))) {
		t.Error("no context has the key of a context without known fields")
	}
}

func TestCostGrows(t *testing.T) {
	small, _, _ := benchTable(t, 3)
	large, _, _ := benchTable(t, 5000)
	if small.Cost() <= 0 || small.Cost() >= large.Cost() {
		t.Errorf("3 rows cost %d, 5000 rows %d", small.Cost(), large.Cost())
	}
}

// A table is shared by all requests.
func TestConcurrentEvaluation(t *testing.T) {
	m := model(t, everyField+"computed:\n  many: seats > 10\n")
	tab := table(t, m, "columns: [plan, city, many, segment, value]\nmatrix:\n"+
		strings.Repeat("  - [/^x/, \"*a*\", true, staff, a]\n", 20)+"  - [pro, GENT, true, staff, b]\n")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				b := bind(t, m, `{"plan":"pro","city":"Gent","seats":11,"ip":"10.0.0.1"}`)
				if got := outcome(tab, tab.Evaluate(b)); got != "b" {
					t.Errorf("got %s", got)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestFieldsRead: two splits by one field read that field alone.
func TestFieldsRead(t *testing.T) {
	m := model(t, "fields: { plan: string, u: string }")
	tab := table(t, m, `
rules:
  - { id: a, split: { by: u, of: [{ value: x, share: 50% }] } }
  - { id: b, split: { by: u, of: [{ value: y, share: 50% }] } }
`)
	if diff := cmp.Diff([]string{"u"}, tab.Fields()); diff != "" {
		t.Error(diff)
	}
}
