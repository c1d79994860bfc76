package rules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/google/go-cmp/cmp"
)

// equalText compares outcomes by their text.
func equalText(tab *Table) func(a, b int) bool {
	return func(a, b int) bool { return tab.Outcomes()[a].Text == tab.Outcomes()[b].Text }
}

// checkFindings checks that the witnesses of findings prove the findings.
func checkFindings(t *testing.T, m *Model, tab *Table, findings []Finding) {
	t.Helper()
	for _, f := range findings {
		if f.Witness == "" {
			continue
		}
		b := new(Binding)
		if err := m.Simulate(b, parseJSON(t, f.Witness), f.At); err != nil {
			t.Fatalf("%v\n%s", err, f.Witness)
		}
		d := tab.Evaluate(b)
		switch f.Kind {
		case Unreachable:
			if !matchAll(tab.rowAtoms(f.Row), b) || d.Row != f.Other || d.Row >= f.Row {
				t.Errorf("%s: %s gives %v", f.Message, f.Witness, d)
			}
		case Overlap:
			if !matchAll(tab.rowAtoms(f.Row), b) || !matchAll(tab.rowAtoms(f.Other), b) {
				t.Errorf("%s: %s does not match both", f.Message, f.Witness)
			}
		case Gap:
			if d.Row >= 0 {
				t.Errorf("%s: %s gives %v", f.Message, f.Witness, d)
			}
		case SameUnits:
			if !matchAll(tab.rowAtoms(f.Row), b) || !matchAll(tab.rowAtoms(f.Other), b) || d.Row == f.Row {
				t.Errorf("%s: %s gives %v", f.Message, f.Witness, d)
			}
		case WithoutUnit:
			if by := tab.answers[f.Other].split.by; !matchAll(tab.rowAtoms(f.Row), b) || b.values[by].state == present {
				t.Errorf("%s: %s gives %v", f.Message, f.Witness, d)
			}
		}
	}
}

func TestAnalyse(t *testing.T) {
	const text = `
fields:
  env:    { type: string, values: [production, staging], required: true }
  locale: { type: string, match: language-range }
  plan:   { type: string }
  seats:  { type: number }
  level:  { type: number, values: [1, 2] }
  beta:   { type: boolean }
  sure:   { type: boolean, required: true }
  since:  { type: date }
  app:    { type: string, format: semver }
  ip:     { type: string, format: ip }
  tags:   { type: list }
computed:
  big: seats > 10
segments:
  staff: [ { tags: employee } ]
`
	m, strict := model(t, text), model(t, "on_type_mismatch: reject"+text)
	tests := []struct {
		name, text string
		a          Analysis
		want       []string
	}{
		{"clean", "columns: [env, plan, value]\nmatrix:\n  - [production, pro, a]\n  - [production, any, b]\n  - [any, pro, c]", Analysis{}, nil},
		{"no rows", "rules: []", Analysis{Gaps: true}, nil},
		{"below a catch-all", "columns: [plan, value]\nmatrix:\n  - [any, a]\n  - [pro, b]", Analysis{},
			[]string{`unreachable flag.yaml:4:5 row 2 is never reached: row 1 above matches all that it matches {"plan":"pro"}`}},
		{"twice", "columns: [plan, seats, value]\nmatrix:\n  - [pro, 1.., a]\n  - [pro, 2..5, b]", Analysis{},
			[]string{`unreachable flag.yaml:4:5 row 2 is never reached: row 1 above matches all that it matches {"plan":"pro","seats":2}`}},
		{"union", "columns: [seats, value]\nmatrix:\n  - [..10, a]\n  - [20.., b]\n  - [5..22, c]\n  - [8..25, d]", Analysis{},
			[]string{`unreachable flag.yaml:6:5 row 4 is never reached: rows above together match all that it matches, among them row 1, row 2, row 3 {"seats":8}`}},
		{"strictly union of all values", "columns: [env, value]\nmatrix:\n  - [production, a]\n  - [staging, b]\n  - [any, c]", Analysis{},
			[]string{`unreachable flag.yaml:5:5 row 3 is never reached: rows above together match all that it matches, among them row 1, row 2 {"env":"production","sure":false}`}},
		{"missing stays open", "columns: [beta, value]\nmatrix:\n  - [true, a]\n  - [false, b]\n  - [any, c]", Analysis{}, nil},
		{"strictly required closes it", "columns: [sure, value]\nmatrix:\n  - [true, a]\n  - [false, b]\n  - [any, c]", Analysis{},
			[]string{`unreachable flag.yaml:5:5 row 3 is never reached: rows above together match all that it matches, among them row 1, row 2 {"env":"production","sure":true}`}},
		{"required may be missing after all", "columns: [sure, value]\nmatrix:\n  - [true, a]\n  - [false, b]\n  - [any, c]", Analysis{}, nil},
		{"required is asked for", "columns: [sure, value]\nmatrix:\n  - [missing, a]\n  - [any, b]", Analysis{}, nil},
		{"strictly required is asked for", "columns: [sure, value]\nmatrix:\n  - [missing, a]\n  - [any, b]", Analysis{},
			[]string{`contradiction flag.yaml:3:6 row 1 never matches: no sure meets missing`}},
		{"values close it", "columns: [level, value]\nmatrix:\n  - [1, a]\n  - [2, b]\n  - [present, c]", Analysis{},
			[]string{`unreachable flag.yaml:5:5 row 3 is never reached: rows above together match all that it matches, among them row 1, row 2 {"level":1}`}},
		{"languages", "columns: [locale, value]\nmatrix:\n  - [nl, a]\n  - [nl-BE, b]", Analysis{},
			[]string{`unreachable flag.yaml:4:5 row 2 is never reached: row 1 above matches all that it matches {"locale":"nl-be"}`}},
		{"versions", "columns: [app, value]\nmatrix:\n  - [^2.1, a]\n  - [2.5, b]\n  - [~2.1, c]", Analysis{},
			[]string{`unreachable flag.yaml:4:5 row 2 is never reached: row 1 above matches all that it matches {"app":"2.5.0"}`,
				`unreachable flag.yaml:5:5 row 3 is never reached: row 1 above matches all that it matches {"app":"2.1.0"}`}},
		{"networks", "columns: [ip, value]\nmatrix:\n  - [10.0.0.0/8, a]\n  - [10.1.0.0/16, b]", Analysis{},
			[]string{`unreachable flag.yaml:4:5 row 2 is never reached: row 1 above matches all that it matches {"ip":"10.1.0.0"}`}},
		{"dates", "columns: [since, value]\nmatrix:\n  - [2026-01-01.., a]\n  - [2026-02-03, b]", Analysis{},
			[]string{`unreachable flag.yaml:4:5 row 2 is never reached: row 1 above matches all that it matches {"since":"2026-02-03T00:00:00Z"}`}},
		{"prefixes", "columns: [plan, value]\nmatrix:\n  - [pro*, a]\n  - [profi, b]\n  - [prof*, c]", Analysis{},
			[]string{`unreachable flag.yaml:4:5 row 2 is never reached: row 1 above matches all that it matches {"plan":"profi"}`,
				`unreachable flag.yaml:5:5 row 3 is never reached: row 1 above matches all that it matches {"plan":"prof"}`}},
		{"patterns", "columns: [plan, value]\nmatrix:\n  - [/^x/, a]\n  - [xy, b]\n  - [/^x/, c]\n  - [\"*y\", d]", Analysis{},
			[]string{`unreachable flag.yaml:4:5 row 2 is never reached: row 1 above matches all that it matches {"plan":"xy"}`,
				`unreachable flag.yaml:5:5 row 3 is never reached: row 1 above matches all that it matches {"plan":"x"}`}},
		{"lists", "columns: [tags, value]\nmatrix:\n  - [[a, b], a]\n  - [a, b]\n  - [{ all: [a, c] }, c]\n  - [c, d]", Analysis{},
			[]string{`unreachable flag.yaml:4:5 row 2 is never reached: row 1 above matches all that it matches {"tags":["a"]}`,
				`unreachable flag.yaml:5:5 row 3 is never reached: row 1 above matches all that it matches {"tags":["a","c"]}`}},
		{"segments", "columns: [segment, value]\nmatrix:\n  - [staff, a]\n  - [staff, b]\n  - [not staff, c]\n  - [any, d]", Analysis{},
			[]string{`unreachable flag.yaml:4:5 row 2 is never reached: row 1 above matches all that it matches {"tags":["employee"]}`,
				`unreachable flag.yaml:6:5 row 4 is never reached: rows above together match all that it matches, among them row 1, row 3 {"tags":["employee"]}`}},
		{"computed", "columns: [big, value]\nmatrix:\n  - [true, a]\n  - [not false, b]", Analysis{},
			[]string{`unreachable flag.yaml:4:5 row 2 is never reached: row 1 above matches all that it matches {"seats":11}`}},
		{"splits don't shadow", "rules:\n  - { id: s, split: { by: plan, of: [{ value: a, share: 99% }] } }\n  - { when: { plan: pro }, value: b }", Analysis{}, nil},
		{"a split that takes all does", "rules:\n  - { id: s, split: { by: plan, of: [{ value: a, share: 40% }, { value: b, share: 60% }] } }\n  - { when: { plan: pro }, value: b }", Analysis{},
			[]string{`unreachable flag.yaml:3:5 row 2 is never reached: s above matches all that it matches, and its split takes all {"plan":"pro"}`}},
		{"but for callers without a unit", "rules:\n  - { id: s, split: { by: plan, of: [{ value: a, share: 100% }] } }\n  - { when: { seats: 1.. }, value: b }\n  - { when: { plan: missing }, value: c }", Analysis{},
			[]string{`without_unit flag.yaml:3:5 row 2 is only reached without plan, because the split of s above takes all that have one: write plan: missing in it if that is meant {"seats":1}`}},
		{"a split below one by the same field", "rules:\n  - { id: s, split: { by: plan, of: [{ value: a, share: 100% }] } }\n  - { id: t, split: { by: plan, of: [{ value: b, share: 10% }] } }\n  - { id: u, split: { by: seats, of: [{ value: b, share: 10% }] } }", Analysis{},
			[]string{`unreachable flag.yaml:3:5 t is never reached: s above matches all that it matches, and its split takes all {"plan":"other"}`,
				`without_unit flag.yaml:4:5 u is only reached without plan, because the split of s above takes all that have one: write plan: missing in it if that is meant {"seats":0}`}},
		{"a ramp that has ended", "rules:\n  - { id: s, value: a, ramp: { by: plan, start: 2026-01-01, end: 2026-02-01 } }\n  - { id: t, value: a, ramp: { by: seats, start: 2026-01-01, end: 2027-02-01 } }\n  - { when: { plan: pro }, value: b }\n  - { when: { seats: 1 }, value: c }", Analysis{},
			[]string{`unreachable flag.yaml:4:5 row 3 is never reached: s above matches all that it matches, and its split takes all {"plan":"pro"}`,
				`without_unit flag.yaml:3:5 t is only reached without plan, because the split of s above takes all that have one: write plan: missing in it if that is meant {"seats":0}`,
				`without_unit flag.yaml:5:5 row 4 is only reached without plan, because the split of s above takes all that have one: write plan: missing in it if that is meant {"seats":1}`}},
		{"one salt", "rules:\n  - { id: s, when: { beta: true }, split: { by: plan, salt: x, of: [{ value: a, share: 50% }] } }\n  - { id: t, split: { by: plan, salt: x, of: [{ value: b, share: 20% }] } }\n  - { id: u, when: { beta: true }, split: { by: plan, salt: x, coverage: 80%, of: [{ value: c, share: 60% }] } }\n  - { id: v, when: { beta: true }, split: { by: seats, salt: x, of: [{ value: b, share: 20% }] } }", Analysis{},
			[]string{`unreachable flag.yaml:4:5 u is never reached: s above matches all that it matches, and its split, which has the same salt, takes all units of this one's`,
				`same_units flag.yaml:3:21 t gets no units of what s above matches too: both have the salt "x", so the 20% of the units that it takes are among the 50% that s takes; give it another salt {"plan":"other","beta":true}`}},
		{"one salt and one value", "rules:\n  - { id: s, when: { beta: true }, split: { by: plan, salt: x, of: [{ value: a, share: 50% }, { value: b, share: 20% }] } }\n  - { id: t, split: { by: plan, salt: x, of: [{ value: a, share: 20% }] } }", Analysis{}, nil},
		{"one salt, and units that are left", "rules:\n  - { id: s, when: { beta: true }, split: { by: plan, salt: x, of: [{ value: a, share: 50% }] } }\n  - { id: t, when: { beta: true }, split: { by: plan, salt: x, of: [{ value: b, share: 51% }] } }\n  - { id: off, split: { by: plan, salt: x, coverage: 0%, of: [{ value: c, share: 51% }] } }", Analysis{}, nil},
		{"a split without its unit", "rules:\n  - { id: s, when: { plan: missing }, split: { by: plan, of: [{ value: a, share: 50% }] } }", Analysis{},
			[]string{`contradiction flag.yaml:2:5 s never answers: it divides by plan, which its cells leave without a value`}},
		{"schedule", "rules:\n  - { from: 2026-01-01, value: a }\n  - { value: b }\n  - { from: 2027-01-01, until: 2027-02-01, value: c }", Analysis{},
			[]string{`unreachable flag.yaml:3:5 row 2 is never reached: row 1 above matches all that it matches {"other":1}`,
				`unreachable flag.yaml:4:5 row 3 is never reached: row 1 above matches all that it matches {"other":1}`}},
		{"schedule to come", "rules:\n  - { from: 2026-07-01, value: a }\n  - { value: b }", Analysis{}, nil},
		{"expired", "rules:\n  - { id: xmas, until: 2025-12-31, value: a }\n  - { value: b }", Analysis{},
			[]string{`expired flag.yaml:2:5 xmas has expired at 2026-01-01T00:00:00Z`}},
		{"strictly dead columns", "columns: [plan, seats, sure, value]\nmatrix:\n  - [pro, any, [true, false], a]\n  - [team, any, any, b]", Analysis{},
			[]string{`dead_column flag.yaml:1:17 the column seats never matters: each of its cells matches everything`,
				`dead_column flag.yaml:3:5 the field sure never matters: each of its cells matches everything`}},
		{"unique", "hit: unique\ncolumns: [env, plan, value]\nmatrix:\n  - [production, any, a]\n  - [any, pro, b]\n  - [staging, pro, b]\n  - [production, free, a]", Analysis{},
			[]string{`unreachable flag.yaml:6:5 row 3 is never reached: row 2 above matches all that it matches {"env":"staging","plan":"pro"}`,
				`unreachable flag.yaml:7:5 row 4 is never reached: row 1 above matches all that it matches {"env":"production","plan":"free"}`,
				`overlap flag.yaml:5:5 row 1 and row 2 match the same context with different values {"env":"production","plan":"pro"}`}},
		{"overlaps", "columns: [seats, value]\nmatrix:\n  - [1..10, a]\n  - [5..20, b]\n  - [11..12, b]\n  - [30.., a]", Analysis{Overlaps: true},
			[]string{`unreachable flag.yaml:5:5 row 3 is never reached: row 2 above matches all that it matches {"seats":11}`,
				`overlap flag.yaml:4:5 row 1 and row 2 match the same context with different values {"seats":5}`}},
		{"gap", "columns: [env, seats, value]\nmatrix:\n  - [production, any, a]\n  - [staging, 10.., b]\n  - [staging, missing, c]\n  - [staging, ..5, c]", Analysis{Gaps: true},
			[]string{`gap flag.yaml:6:5 no row matches {"env":"staging","seats":6}: the default answers {"env":"staging","seats":6}`}},
		{"no gap", "columns: [env, seats, value]\nmatrix:\n  - [production, any, a]\n  - [staging, 10.., b]\n  - [staging, missing, c]\n  - [staging, ..<10, c]", Analysis{Gaps: true}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := m
			if strings.HasPrefix(tt.name, "strictly") {
				m = strict
			}
			tab := table(t, m, tt.text)
			tt.a.Now, tt.a.Equal = noon, equalText(tab)
			findings := tab.Analyse(tt.a)
			var got []string
			for _, f := range findings {
				got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", f.Kind, f.Pos, f.Message, f.Witness)))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			checkFindings(t, m, tab, findings)
		})
	}
}

// On a model of closed values every context can be tried, so that the findings
// must agree exactly with evaluation.
func TestAnalyseAgainstAllContexts(t *testing.T) {
	const fields = "fields:\n  a: { type: string, values: [x, y, z] }\n  b: { type: number, values: [1, 2, 3] }\n  c: { type: boolean, required: true }\n"
	models := []*Model{model(t, fields), model(t, "on_type_mismatch: reject\n"+fields)}
	cells := map[string][]string{
		"a": {"any", "x", "not x", "[x, y]", "missing", "present", "[missing, z]", "\"*y\"", "{ matches: '^[xy]' }"},
		"b": {"any", "1", "2..", "not 2", "missing", "..2", "[1, 3]"},
		"c": {"any", "true", "false"},
	}
	var contexts, incomplete []string
	for _, a := range []string{"", `"a":"x",`, `"a":"y",`, `"a":"z",`} {
		for _, b := range []string{"", `"b":1,`, `"b":2,`, `"b":3,`} {
			contexts = append(contexts, "{"+a+b+`"c":true}`, "{"+a+b+`"c":false}`)
			incomplete = append(incomplete, "{"+a+b+`"other":1}`)
		}
	}
	found := make(map[FindingKind]int)
	for seed := range uint64(300) {
		g := generator{Rand: rand.New(rand.NewPCG(seed, 1))}
		var text strings.Builder
		text.WriteString("columns: [a, b, c, value]\nmatrix:\n")
		rows := 1 + g.IntN(10)
		for range rows {
			fmt.Fprintf(&text, "  - [%s, %s, %s, v%d]\n", pick(g, cells["a"]), pick(g, cells["b"]), pick(g, cells["c"]), g.IntN(3))
		}
		m := models[seed%2]
		tab := table(t, m, text.String())
		reached := make([]bool, rows)
		overlap := make(map[[2]int]bool)
		gap := false
		all := contexts
		if seed%2 == 0 { // a required field may be missing after all
			all = slices.Concat(contexts, incomplete)
		}
		for i, context := range all {
			b := bind(t, m, context)
			if d := tab.Evaluate(b); d.Row >= 0 {
				reached[d.Row] = true
			} else if i < len(contexts) {
				gap = true
			}
			for i := range rows {
				for j := range i {
					if matchAll(tab.rowAtoms(i), b) && matchAll(tab.rowAtoms(j), b) && !equalText(tab)(i, j) {
						overlap[[2]int{i, j}] = true
					}
				}
			}
		}
		findings := tab.Analyse(Analysis{Now: noon, Equal: equalText(tab), Overlaps: true, Gaps: true})
		checkFindings(t, m, tab, findings)
		for _, f := range findings {
			found[f.Kind]++
			switch f.Kind {
			case Unreachable:
				if reached[f.Row] || f.Witness == "" {
					t.Errorf("%s (witness %s)", f.Message, f.Witness)
				}
				reached[f.Row] = true
			case Overlap:
				if !overlap[[2]int{f.Row, f.Other}] {
					t.Error(f.Message)
				}
				delete(overlap, [2]int{f.Row, f.Other})
			case Gap:
				if !gap {
					t.Error(f.Message)
				}
				gap = false
			}
		}
		for i, r := range reached {
			if !r {
				t.Errorf("row %d is not reached, which was not found", i+1)
			}
		}
		if len(overlap) > 0 || gap {
			t.Errorf("not found: overlaps %v, gap %v", overlap, gap)
		}
		if t.Failed() {
			t.Fatalf("seed %d\n%s", seed, text.String())
		}
	}
	if found[Unreachable] < 50 || found[Overlap] < 50 || found[Gap] < 50 {
		t.Errorf("too little to be found: %v", found)
	}
}

// The findings about splits must agree exactly with the evaluation of all contexts,
// with so many units that each range of buckets has some.
func TestAnalyseSplitsAgainstAllContexts(t *testing.T) {
	alone(t)
	m := model(t, "fields:\n  a: { type: string, values: [x, y] }\n  u: { type: string }\n  v: { type: string }\n")
	cells := []string{"a: x", "a: x", "a: y", "a: not x", "u: present", "u: missing", "v: missing"}
	splits := []string{
		"of: [{ value: p, share: 40% }, { value: q, share: 60% }]", "of: [{ value: p, share: 50% }]", "of: [{ value: q, share: 20% }, { value: p, share: 20% }]",
		"coverage: 50%, of: [{ value: p, share: 40% }]", "coverage: 0%, of: [{ value: p, share: 100% }]", "of: [{ value: q, share: 10% }]", "of: [{ value: r, share: 10% }]",
	}
	var contexts []string
	for _, a := range []string{"", `"a":"x",`, `"a":"y",`} {
		contexts = append(contexts, "{"+a+`"other":1}`)
		for unit := range 120 {
			contexts = append(contexts, fmt.Sprintf(`{%s"v":"v%d"}`, a, unit), fmt.Sprintf(`{%s"u":"u%d"}`, a, unit), fmt.Sprintf(`{%s"u":"u%d","v":"v%d"}`, a, unit, unit))
		}
	}
	slot := map[string]int32{"u": 1, "v": 2}
	found := make(map[FindingKind]int)
	for seed := range uint64(600) {
		g := generator{Rand: rand.New(rand.NewPCG(seed, 7))}
		var text strings.Builder
		text.WriteString("rules:\n")
		rows := 3 + g.IntN(3)
		salted := false
		for row := range rows {
			fmt.Fprintf(&text, "  - { id: r%d", row+1)
			if g.IntN(3) > 0 {
				fmt.Fprintf(&text, ", when: { %s }", pick(g, cells))
			}
			if g.IntN(6) == 0 {
				text.WriteString(", value: " + pick(g, []string{"p", "q"}) + " }\n")
				continue
			}
			salt := ""
			if seed%2 == 0 {
				salt, salted = "salt: s, ", true
			}
			fmt.Fprintf(&text, ", split: { by: %s, %s%s } }\n", pick(g, []string{"u", "u", "u", "v"}), salt, pick(g, splits))
		}
		tab := table(t, m, text.String())
		equal := equalText(tab)
		reached, without := make([]bool, rows), make(map[[2]int32]bool) // rows and fields
		for row := range rows {
			without[[2]int32{int32(row), slot["u"]}], without[[2]int32{int32(row), slot["v"]}] = true, true
		}
		both := make(map[[2]int]bool) // pairs of rows: the second answers a context that the first matches
		for _, context := range contexts {
			b := bind(t, m, context)
			d := tab.Evaluate(b)
			if d.Row < 0 {
				continue
			}
			reached[d.Row] = true
			for _, by := range slot {
				if b.values[by].state == present {
					without[[2]int32{int32(d.Row), by}] = false
				}
			}
			for other := range d.Row {
				if matchAll(tab.rowAtoms(other), b) {
					both[[2]int{other, d.Row}] = true
				}
			}
		}
		findings := tab.Analyse(Analysis{Now: noon, Equal: equal})
		checkFindings(t, m, tab, findings)
		for _, f := range findings {
			found[f.Kind]++
			switch f.Kind {
			case Unreachable, Contradiction:
				if reached[f.Row] {
					t.Error(f.Message)
				}
				reached[f.Row] = true
			case WithoutUnit:
				if by := tab.answers[f.Other].split.by; !reached[f.Row] || !without[[2]int32{int32(f.Row), by}] {
					t.Error(f.Message)
				}
			case SameUnits:
				if !reached[f.Row] || both[[2]int{f.Other, f.Row}] {
					t.Error(f.Message)
				}
			default:
				t.Errorf("%s: %s", f.Kind, f.Message)
			}
		}
		for i, r := range reached {
			// Two rows with one salt may together take all units of a third
			// one.
			if off := tab.answers[i].split != nil && tab.answers[i].split.coverage == 0; !r && !off && !salted {
				t.Errorf("row %d is not reached, which was not found", i+1)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d\n%s", seed, text.String())
		}
	}
	if found[Unreachable] < 100 || found[WithoutUnit] < 40 || found[SameUnits] < 20 {
		t.Errorf("too little to be found: %v", found)
	}
}

// On tables of all kinds of cells, each finding must hold for any context.
func TestAnalyseIsSound(t *testing.T) {
	alone(t)
	m := model(t, referenceModel)
	unreachable, overlapping := 0, 0
	for seed := range uint64(80) {
		g := generator{Rand: rand.New(rand.NewPCG(seed, 2)), literal: seed%2 == 1}
		text, refs := g.table(1 + g.IntN(30))
		text, _ = withoutContradictions(t, m, text, refs)
		tab := table(t, m, text)
		now := noon.AddDate(0, -5, 0)
		findings := tab.Analyse(Analysis{Now: now, Overlaps: true, Gaps: true})
		checkFindings(t, m, tab, findings)
		never := make(map[int]bool)
		overlaps := make(map[[2]int]bool)
		undecided := false
		for _, f := range findings {
			if f.Kind == Overlap {
				overlaps[[2]int{f.Other, f.Row}] = true
			}
			undecided = undecided || f.Kind == Undecided
			if f.Kind == Unreachable || f.Kind == Expired || f.Kind == Contradiction {
				never[f.Row] = true
			}
			if f.Kind == Unreachable {
				unreachable++
			}
		}
		for range 200 {
			context, _ := g.context()
			b := bindAt(t, m, context, now)
			if d := tab.Evaluate(b); never[d.Row] {
				t.Fatalf("seed %d: %s answers %s\n%s", seed, tab.Rows()[d.Row].ID, context, text)
			}
			// A row without a finding is reported as undecided.
			for row := range tab.rows {
				for other := range row {
					if b.hasContext && matchAll(tab.rowAtoms(row), b) && matchAll(tab.rowAtoms(other), b) {
						overlapping++
						if !overlaps[[2]int{other, row}] && !undecided && len(overlaps) < maxFindings {
							t.Fatalf("seed %d: %s and %s match %s\n%s", seed, tab.Rows()[other].ID, tab.Rows()[row].ID, context, text)
						}
					}
				}
			}
		}
	}
	if unreachable < 10 || overlapping < 100 {
		t.Errorf("only %d unreachable rows and %d overlaps found", unreachable, overlapping)
	}
}

func TestAnalyseBudget(t *testing.T) {
	tab, _, _ := benchTable(t, 1000)
	findings := tab.Analyse(Analysis{Now: noon, Budget: 100})
	if len(findings) != 1 || findings[0].Kind != Undecided {
		t.Errorf("got %v", findings)
	}
}

func TestFindingKindNames(t *testing.T) {
	if Undecided.String() != "undecided" || FindingKind(0).String() != "unknown" || FindingKind(99).String() != "unknown" {
		t.Error("wrong names")
	}
}

func BenchmarkAnalyse(b *testing.B) {
	for _, rows := range []int{10, 100, 1000, 10_000} {
		tab, _, _ := benchTable(b, rows)
		for name, a := range map[string]Analysis{"reach": {}, "overlaps": {Overlaps: true}} {
			a.Now = noon
			b.Run(fmt.Sprintf("rows=%d/%s", rows, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					tab.Analyse(a)
				}
			})
		}
	}
}

// On tables with hit: unique of a few rows about text, lists and versions, all
// overlaps are found or said not to be decided; most are found.
func TestOverlapsAreComplete(t *testing.T) {
	alone(t)
	cells := map[string][]string{
		"name":    {"any", "a*", "\"*b\"", "\"*ab*\"", "ab", "not a*", "{ matches: '^[ab]+$' }", "{ matches: 'b' }", "missing", "[a, b]", "{ all: [a*, { not: \"*b\" }] }"},
		"tags":    {"any", "a", "[a, b]", "{ all: [a, b] }", "{ none: [a] }", "{ size: 2.. }", "{ size: 1 }", "not b", "missing", "a*", "{ any: [c], none: [a, b] }", "{ size: 2, all: [a, b, c] }"},
		"app":     {"any", "1.0.0", "1.0.0-a..<1.0.0", "..<1.0.0-b", "^1.0", "not 1.0.0-a", "1.0.0-b.."},
		"segment": {"any", "s", "not s", "[s, u]", "{ all: [s, u] }", "{ none: [s, u] }"},
	}
	m := model(t, "fields:\n  name: string\n  tags: list\n  app: { type: string, format: semver }\nsegments:\n  s: [ { tags: a }, { name: b* } ]\n  u: [ { segment: s, app: 1.0.0.. }, { tags: { none: [b] } } ]\n")
	pickOne := func(g generator, list []string) string { return list[g.IntN(len(list))] }
	found, open, clean := 0, 0, 0
	for seed := range uint64(600) {
		g := generator{Rand: rand.New(rand.NewPCG(seed, 3))}
		var text strings.Builder
		text.WriteString("hit: unique\ncolumns: [name, tags, app, segment, value]\nmatrix:\n")
		for i := range 2 + g.IntN(3) {
			fmt.Fprintf(&text, "  - [%s, %s, %s, %s, v%d]\n", pickOne(g, cells["name"]), pickOne(g, cells["tags"]), pickOne(g, cells["app"]), pickOne(g, cells["segment"]), i)
		}
		var errs document.Errors
		tab := DecodeTable(m, parseYAML(t, "flag.yaml", text.String()), Options{}, &errs)
		if errs.Len() > 0 {
			t.Fatalf("%s\n%s", mistakes(&errs), text.String())
		}
		findings := tab.Analyse(Analysis{Now: noon, Equal: equalText(tab)})
		checkFindings(t, m, tab, findings)
		overlaps := make(map[[2]int]bool)
		undecided := false
		for _, f := range findings {
			switch f.Kind {
			case Overlap:
				overlaps[[2]int{f.Other, f.Row}] = true
				if f.Witness == "" {
					t.Errorf("%s without an example", f.Message)
				}
				found++
			case Undecided:
				undecided = true
				open++
				t.Logf("%s\n%s", f.Message, text.String())
			}
		}
		if len(findings) == 0 {
			clean++
		}
		for range 300 {
			b := bind(t, m, fmt.Sprintf(`{"name":%s,"tags":%s,"app":%s}`,
				pickOne(g, []string{"null", `"a"`, `"b"`, `"ab"`, `"ba"`, `"aab"`, `"xabx"`, `"c"`}),
				pickOne(g, []string{"null", `["a"]`, `["b"]`, `["a","b"]`, `["c"]`, `["c","d"]`, `["a","b","c"]`}),
				pickOne(g, []string{"null", `"1.0.0"`, `"1.0.0-a"`, `"1.0.0-a.1"`, `"1.0.0-b"`, `"1.2.0"`, `"0.9.0"`, `"2.0.0"`})))
			tab.Evaluate(b)
			for row := range tab.rows {
				for other := range row {
					if matchAll(tab.rowAtoms(row), b) && matchAll(tab.rowAtoms(other), b) && !overlaps[[2]int{other, row}] && !undecided {
						t.Fatalf("seed %d: rows %d and %d overlap\n%s", seed, other+1, row+1, text.String())
					}
				}
			}
		}
	}
	t.Logf("%d overlaps found, %d tables not decided, %d clean", found, open, clean)
	if found < 250 || open > 6 || clean < 30 {
		t.Errorf("%d overlaps found, %d tables not decided, %d clean", found, open, clean)
	}
}

// TestImplies compares the implications of a set of texts with those of each of
// its texts.
func TestImplies(t *testing.T) {
	texts := func(list ...string) *pred {
		var set strSet
		for _, text := range list {
			set = append(set, span[string]{text, text + "\x00"})
		}
		return strPred(set)
	}
	ends := &pred{op: suffix, text: "@acme.com"}
	for _, test := range []struct {
		p, q *pred
		want bool
	}{
		{texts("a@acme.com", "b@acme.com"), ends, true},
		{texts("a@acme.com", "b@acme.org"), ends, false},
		{texts("a", "b"), texts("a", "b", "c"), true},
		{texts("a", "d"), texts("a", "b", "c"), false},
		{ends, texts("a@acme.com"), false},
		{ends, &pred{op: contains, text: "acme"}, true},
	} {
		if got := implies(test.p, test.q); got != test.want {
			t.Errorf("%+v implies %+v: %v", test.p, test.q, got)
		}
	}
}
