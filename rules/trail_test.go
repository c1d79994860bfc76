package rules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// trailText writes a trail for people.
func trailText(tr *Trail) string {
	var parts []string
	for _, c := range tr.Splits {
		outcome := fmt.Sprintf("%q %d", c.Arm, c.Share)
		if c.Unconsulted {
			outcome = "not consulted"
		}
		if c.Rollout > 0 {
			outcome += fmt.Sprint(" row ", c.Rollout)
		}
		if c.Uncompared {
			outcome += " uncompared"
		}
		parts = append(parts, fmt.Sprintf("%s:%s %s=%d %s", c.Table.Name(), c.Table.Rows()[c.Row].ID, c.Field, c.Bucket, outcome))
	}
	for _, t := range tr.Asked {
		parts = append(parts, "asked "+t.Name())
	}
	return strings.Join(parts, "\n")
}

// named decodes a table with a name, whose config: cells ask others by theirs.
func named(t testing.TB, m *Model, name, text string, others ...*Table) *Table {
	t.Helper()
	asked := make(map[string]*Table)
	for _, other := range others {
		asked[other.name] = other
	}
	tab := tableAsking(t, m, asked, text)
	tab.name = name
	return tab
}

// TestTrail checks that the trail has the splits and tables consulted, in
// order, and nothing else.
func TestTrail(t *testing.T) {
	m := model(t, "fields: { plan: string, u: string, n: number }\ncomputed: { unit: 'u + \"x\"' }")
	base := named(t, m, "base", "rules: [{ id: half, split: { by: u, of: [{ value: on, share: 50%, name: yes }, { value: off, share: 25% }] } }]")
	unasked := named(t, m, "unasked", "rules: [{ id: x, split: { by: u, of: [{ value: on, share: 100% }] } }]")
	top := named(t, m, "top", `
rules:
  - { id: first, when: { plan: pro }, split: { by: u, coverage: 10%, of: [{ value: a, share: 20%, name: blue }, { value: b, share: 80% }] } }
  - { id: number, when: { plan: pro }, split: { by: n, of: [{ value: a, share: 20% }] } }
  - { id: asks, when: { config: { base: on, unasked: off }, plan: [pro, free] }, value: c }
  - { id: others, when: { config: { unasked: on }, plan: team }, value: c }
  - { id: ramp, ramp: { by: unit, from: 10%, to: 50%, start: 2026-06-01T11:00:00Z, end: 2026-06-01T13:00:00Z }, value: d }
  - { id: ends, when: { plan: free }, value: e }
  - { id: below, split: { by: u, salt: other, of: [{ value: f, share: 50% }] } }
`, base, unasked)
	for _, tt := range []struct{ context, row, want string }{
		// Passed on by each split, with the coverage of all arms; no number, so that split is not consulted.
		{`{"plan":"pro","u":"c-1"}`, "default", `
top:first u=44000 "" 10000
base:half u=68636 "2" 25000
top:ramp unit=63744 "" 30000
top:below u=92512 "" 50000
asked base`},
		// The first condition holds, so the second is asked. Rows below the answer consult nothing.
		{`{"plan":"free","u":"c-18"}`, "ends", `
base:half u=14895 "yes" 50000
unasked:x u=89935 "1" 100000
top:ramp unit=55685 "" 30000
asked base
asked unasked`},
		{`{"plan":"pro","u":"c-4","n":4}`, "ramp", `
top:first u=79737 "" 10000
top:number n=74148 "" 20000
base:half u=64984 "2" 25000
top:ramp unit=14588 "1" 30000
asked base`},
		// The share of the arm, times the coverage.
		{`{"plan":"pro","u":"c-2"}`, "first", `top:first u=421 "blue" 2000`},
		// A row of another plan asks nothing.
		{`{"plan":"other","u":"c-7"}`, "ramp", `top:ramp unit=625 "1" 30000`},
		{`{"n":1}`, "default", ``},
		{`{}`, "default", ``},
	} {
		b := bind(t, m, tt.context)
		d := top.Evaluate(b)
		row := "default"
		if d.Row >= 0 {
			row = top.Rows()[d.Row].ID
		}
		var tr Trail
		top.AppendTrail(&tr, b)
		top.Evaluate(b) // the trail is done
		if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), trailText(&tr)); diff != "" || row != tt.row {
			t.Errorf("%s: %s: %s", tt.context, row, diff)
		}
	}
}

// TestTrailRest checks that the splits that no unit came to follow, where there is a unit:
// below the row that decided, in rows of others, and in the tables that were asked.
func TestTrailRest(t *testing.T) {
	t.Parallel()
	m := model(t, "fields: { plan: string, u: string, n: number }\ncomputed: { unit: 'u + \"x\"' }")
	base := named(t, m, "base", "rules: [{ id: first, when: { plan: team }, split: { by: u, of: [{ value: on, share: 10% }] } }, { id: half, split: { by: u, of: [{ value: on, share: 50% }] } }]")
	unasked := named(t, m, "unasked", "rules: [{ id: x, split: { by: u, of: [{ value: on, share: 100% }] } }]")
	top := named(t, m, "top", `
rules:
  - { id: asks, when: { config: { base: on }, plan: [pro, free] }, split: { by: u, of: [{ value: a, share: 100% }] } }
  - { id: never, when: { plan: other, config: { unasked: on } }, until: 2020-01-01, split: { by: unit, of: [{ value: a, share: 30% }, { value: b, share: 0% }, { value: c, share: 20%, name: sea }] } }
  - { id: number, when: { plan: other }, split: { by: n, of: [{ value: a, share: 20% }] } }
  - { id: plain, when: { plan: other }, value: d }
  - { id: ramp, ramp: { by: u, from: 10%, to: 50%, start: 2026-06-01T11:00:00Z, end: 2026-06-01T13:00:00Z }, value: d }
`, base, unasked)
	for context, want := range map[string]string{
		`{"plan":"pro","u":"c-18"}`: `
base:half u=14895 "1" 50000
top:asks u=33244 "1" 100000
top:never unit=69496 not consulted
top:ramp u=27853 not consulted
base:first u=29769 not consulted
asked base`,
		`{"plan":"none","u":"c-18"}`: `
top:ramp u=27853 "1" 30000
top:asks u=33244 not consulted
top:never unit=69496 not consulted`,
		`{"plan":"other","n":4}`: `top:number n=74148 "" 20000`,
		`{"plan":"free","n":4}`:  "top:number n=74148 not consulted\nasked base",
		`{}`:                     ``,
	} {
		b := bind(t, m, context)
		var tr Trail
		for range 2 { // also where the memory is another decision's
			tr.Reset()
			top.AppendTrail(&tr, b)
			tr.Rest(b)
		}
		if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), trailText(&tr)); diff != "" {
			t.Errorf("%s: %s", context, diff)
		}
	}
}

// A trail may be of several tables, each of which is in it once, whether another
// asked it before or after it answered itself.
func TestTrailOfSeveralTables(t *testing.T) {
	m := model(t, "fields: { u: string }")
	split := func(id string) string {
		return "{ id: " + id + ", split: { by: u, of: [{ value: on, share: 0% }] } }"
	}
	deep := named(t, m, "deep", "rules: ["+split("d")+"]")
	flag := named(t, m, "flag", "rules: ["+split("f")+", { when: { config: { deep: on } }, value: on }]", deep)
	first := named(t, m, "first", "rules: [{ when: { config: { flag: on } }, value: 1 }, "+split("a")+"]", flag)
	second := named(t, m, "second", "rules: [{ when: { config: { flag: default, deep: default } }, value: 1 }]", flag, deep)
	plain := named(t, m, "plain", "rules: [{ value: 1 }]")
	var tr Trail
	for _, tt := range []struct {
		tables []*Table
		want   string
	}{
		{[]*Table{first, second}, "flag:f deep:d first:a; flag deep"},
		{[]*Table{first, flag}, "flag:f deep:d first:a; flag deep"},
		{[]*Table{flag, first}, "flag:f deep:d first:a; deep flag"},
		{[]*Table{deep, second, deep, plain}, "deep:d flag:f; flag deep"},
		{[]*Table{plain, flag}, "flag:f deep:d; deep"},
	} {
		b := bind(t, m, `{"u":"1"}`)
		tr.Reset()
		for _, tab := range tt.tables {
			tab.AppendTrail(&tr, b)
		}
		var splits, asked []string
		for _, c := range tr.Splits {
			splits = append(splits, c.Table.name+":"+c.Table.rows[c.Row].ID)
		}
		for _, tab := range tr.Asked {
			asked = append(asked, tab.name)
		}
		if got := strings.Join(splits, " ") + "; " + strings.Join(asked, " "); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
	if plain.HasTrail() || !second.HasTrail() || !deep.HasTrail() {
		t.Error("a table without splits and prerequisites has a trail, or one with them has none")
	}
}

// Of many splits that pass a unit on the first are in the trail, and the one that
// gave the arm. The rows of large tables are found by the index.
func TestTrailOfManySplits(t *testing.T) {
	m := model(t, "fields: { u: string, n: string }")
	var text strings.Builder
	text.WriteString("rules:\n")
	for i := range 2000 {
		fmt.Fprintf(&text, "  - { id: r%d, when: { n: [n%d, all] }, split: { by: u, of: [{ value: x, share: 0%% }] } }\n", i, i%1000)
	}
	text.WriteString("  - { id: end, split: { by: u, of: [{ value: x, share: 100% }] } }\n")
	tab := table(t, m, text.String())
	for context, want := range map[string]int{`{"u":"1","n":"all"}`: MaxSplits + 1, `{"u":"1","n":"n7"}`: 3, `{"u":"1"}`: 1} {
		b := bind(t, m, context)
		var tr Trail
		tab.AppendTrail(&tr, b)
		if len(tr.Splits) != want || tr.Splits[want-1].Arm != "1" {
			t.Errorf("%s: %d splits, want %d", context, len(tr.Splits), want)
		}
		if tr.Rest(b); len(tr.Splits) != max(want, MaxSplits) {
			t.Errorf("%s: %d splits with those that were not consulted", context, len(tr.Splits))
		}
	}
}

// TestTrailAsk: a table that a value was taken from is in the trail once, even if
// it is a prerequisite too, and without a context, which consults no split.
func TestTrailAsk(t *testing.T) {
	m := model(t, "fields: { plan: string, u: string }")
	base := named(t, m, "base", "rules: [{ id: half, split: { by: u, of: [{ value: on, share: 100% }] } }]")
	top := named(t, m, "top", "rules: [{ id: asks, when: { config: { base: on } }, value: c }]", base)
	plain := named(t, m, "plain", "rules: [{ when: { plan: pro }, value: c }]")
	for context, want := range map[string]string{
		`{"u":"c-1"}`: "base:half u=68636 \"1\" 100000\nasked base\nasked top\nasked plain",
		`{}`:          "asked plain\nasked top\nasked base",
	} {
		b := bind(t, m, context)
		var tr Trail
		for range 2 {
			asked := []*Table{base, top, plain}
			if context == `{}` {
				asked = []*Table{plain, top, base}
			}
			for range 2 {
				for _, table := range asked {
					tr.Ask(table, b)
				}
			}
			if diff := cmp.Diff(want, trailText(&tr)); diff != "" {
				t.Errorf("%s: %s", context, diff)
			}
			tr.Reset()
		}
		// A prerequisite that was asked before is not asked again.
		top.AppendTrail(&tr, b)
		tr.Ask(base, b)
		if got := strings.Count(trailText(&tr), "asked base"); got != 1 {
			t.Errorf("%s: asked base %d times", context, got)
		}
	}
}

// A binding that was given up while a table was gone through again, as by a panic,
// adds nothing to that trail when it is bound again.
func TestTrailOfAnEarlierBinding(t *testing.T) {
	m := model(t, "fields: { u: string }")
	tab := named(t, m, "tab", "rules: [{ id: half, split: { by: u, of: [{ value: on, share: 50% }] } }]")
	var b Binding
	var tr Trail
	b.trail = &tr
	if err := m.Bind(&b, parseJSON(t, `{"u":"x"}`), noon); err != nil {
		t.Fatal(err)
	}
	if tab.Evaluate(&b); len(tr.Splits) > 0 {
		t.Errorf("the trail has %s", trailText(&tr))
	}
}
