package rules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// trail appends the splits that the reference consults for a table, and the
// tables that it asks, as trailText writes them.
func (r *refTable) trail(c refContext, now time.Time, seen map[*refTable]bool, splits, asked []string) (_, _ []string) {
	for i := range r.rows {
		row := &r.rows[i]
		if !row.matches(c, now) {
			continue
		}
		met := true
		for _, a := range row.asks {
			if !seen[a.table] {
				seen[a.table] = true
				asked = append(asked, "asked "+a.table.name)
				splits, asked = a.table.trail(c, now, seen, splits, asked)
			}
			if met = a.table.answer(c, now) == a.value; !met {
				break
			}
		}
		if !met {
			continue
		}
		if row.split == nil {
			break
		}
		s, ok := row.split(c, now)
		if !ok {
			continue
		}
		splits = append(splits, fmt.Sprintf("%s:%s %s=%d %q %d%s", r.name, row.id, s.field, s.bucket, s.arm, s.share, s.note))
		if s.arm != "" {
			break
		}
	}
	return splits, asked
}

// checkTrail compares the trails of one random table, which asks others, with the
// reference, however the table is evaluated.
func checkTrail(t *testing.T, seed uint64) {
	g := generator{Rand: rand.New(rand.NewPCG(seed, 1)), literal: seed%2 == 1, long: true, rich: true, guards: seed%3 == 0}
	m := model(t, referenceModel, refRollouts...)
	var top *refTable
	var text string
	for i := range 1 + g.IntN(5) {
		top = &refTable{name: fmt.Sprint("t", i)}
		text, top.rows = g.table(1 + g.IntN(pick(g, []int{3, 20, 80})))
		text, top.rows = withoutContradictions(t, m, text, top.rows)
		var others []*Table
		for _, a := range g.asked {
			others = append(others, a.table)
		}
		top.table = named(t, m, top.name, text, others...)
		g.asked = append(g.asked, top)
	}
	scan, indexed := *top.table, *top.table
	scan.index, indexed.index = nil, newIndex(top.table, columnBudget)
	for range 20 {
		json, gateway, c := g.request()
		now := time.Date(2026, 1, 1+g.IntN(7), g.IntN(24), g.IntN(60), 0, 0, time.UTC)
		splits, asked := top.trail(c, now, make(map[*refTable]bool), nil, nil)
		want := strings.Join(append(splits, asked...), "\n")
		bound := func() *Binding {
			b := bindAt(t, m, json, now)
			b.SetGateway(gateway)
			return b
		}
		b := bound()
		var d Decision
		for name, tab := range map[string]*Table{"scan": &scan, "index": &indexed} {
			var tr Trail
			d = tab.Evaluate(b)
			for try, from := range []*Binding{b, b, bound()} { // as evaluated, again, and as cached
				tr.Reset()
				tab.AppendTrail(&tr, from)
				if got := trailText(&tr); got != want {
					t.Fatalf("seed %d, %s, try %d: got\n%s\nwant\n%s\nat %s for %s\n%s", seed, name, try, got, want, now, json, text)
				}
			}
			if d.Reason != Split {
				continue
			}
			// All tables of the reference have the same rows' names, but not the same table.
			consulted := slices.Clone(tr.Splits)
			last := consulted[len(consulted)-1]
			tr.Rest(b)
			checkRest(t, &tr, consulted, tab, b)
			if last.Table != tab || last.Row != d.Row || last.Arm != tab.Arm(d) || last.Arm == "" {
				t.Fatalf("seed %d: the last split is %v, the decision %v", seed, last, d)
			}
		}
		if got := outcome(top.table, d); got != top.answer(c, now) {
			t.Fatalf("seed %d: got %s", seed, got)
		}
	}
}

func TestTrailAgainstReference(t *testing.T) {
	alone(t)
	seeds := uint64(60)
	if testing.Short() {
		seeds = 25
	}
	for seed := range seeds {
		checkTrail(t, seed)
	}
}

func FuzzTrailAgainstReference(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(checkTrail)
}

// checkRest checks that the splits of a trail are those that were consulted, and after
// them every other one of its tables that has a unit.
func checkRest(t *testing.T, tr *Trail, consulted []Consulted, top *Table, b *Binding) {
	t.Helper()
	if !slices.Equal(tr.Splits[:len(consulted)], consulted) {
		t.Fatalf("the consulted splits were %v and are %v", consulted, tr.Splits)
	}
	rest := 0
	for _, tab := range append([]*Table{top}, tr.Asked...) {
		for row := range tab.rows {
			s := tab.answers[row].split
			if s == nil || slices.ContainsFunc(consulted, func(c Consulted) bool { return c.Table == tab && c.Row == row }) {
				continue
			}
			bucket, ok := s.bucket(b)
			if !ok {
				continue
			}
			rest++
			want := Consulted{Table: tab, Row: row, Bucket: bucket, Field: tab.model.fields[s.by].name, Unconsulted: true}
			if s.guarded {
				want.Rollout, want.Uncompared = b.rolloutRow(s.rollout), s.consulted(tab, row, bucket, s.covers(b)).Uncompared
			}
			if !slices.Contains(tr.Splits[len(consulted):], want) {
				t.Fatalf("the trail lacks row %d of %s", row, tab.name)
			}
		}
	}
	if len(tr.Splits)-len(consulted) != rest {
		t.Fatalf("%d splits follow, want %d", len(tr.Splits)-len(consulted), rest)
	}
}
