package rules

import (
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/valyala/fastjson"
)

// Analysis says what to look for.
type Analysis struct {
	// Budget bounds the work, in steps of very roughly 100 ns. Zero means
	// DefaultBudget.
	Budget int
	// Now is the instant from which on the table is looked at. It decides
	// which rows have expired, and may not be zero.
	Now time.Time
	// Equal tells whether two outcomes are the same value. Without it no two
	// are.
	Equal func(a, b int) bool
	// Overlaps asks for overlaps, and Gaps for a context only the default
	// answers. Both are what most tables are made of; a table with hit:
	// unique is always searched for overlaps.
	Overlaps, Gaps bool
}

// DefaultBudget is the work bound of an analysis: about half a second.
const DefaultBudget = 5_000_000

// maxFindings is how many findings of one kind are reported.
const maxFindings = 50

// Analyse looks for mistakes in a table: rows that are never reached or have
// expired, columns that never matter and, on demand, overlaps and gaps. What
// it reports is so, given that required fields have a value; what it can't
// decide within the budget it says.
func (t *Table) Analyse(a Analysis) []Finding {
	if a.Budget <= 0 {
		a.Budget = DefaultBudget
	}
	z := analyser{t: t, a: a, left: a.Budget}
	z.expired()
	if len(t.rows) == 0 {
		return nil
	}
	if z.grid = newGrid(t, a.Now); z.grid == nil {
		z.found(Finding{Kind: Undecided, Row: -1, Other: -1, Pos: t.rows[0].Pos, Message: "the table has too many different values to be analysed"})
		return z.findings
	}
	z.deadColumns()
	z.unreachable()
	if a.Overlaps || t.unique {
		z.overlaps()
	}
	if a.Gaps {
		z.gap()
	}
	return z.findings
}

type analyser struct {
	*grid
	t        *Table
	a        Analysis
	left     int // of the budget
	findings []Finding
	past     []bool // the rows that have expired
}

func (z *analyser) found(f Finding) { z.findings = append(z.findings, f) }

// expired finds the rows whose until has passed.
func (z *analyser) expired() {
	t := z.t
	now := dateKey(z.a.Now)
	z.past = make([]bool, len(t.rows))
	n := 0
	for row := range t.rows {
		for _, a := range t.rowAtoms(row) {
			if a.slot != t.model.nowSlot() || a.op != atomSpan || a.span.hi > now {
				continue
			}
			z.past[row] = true
			if n++; n <= maxFindings {
				z.found(Finding{Kind: Expired, Row: row, Other: -1, Pos: t.rows[row].Pos,
					Message: fmt.Sprintf("%s has expired at %s", t.rows[row].ID, appendTime(nil, a.span.hi, t.model.location))})
			}
		}
	}
}

// deadColumns finds the columns of a matrix that have no condition.
func (z *analyser) deadColumns() {
	for _, column := range z.t.columns {
		alive := slices.ContainsFunc(z.t.cells, func(c cellRef) bool { return c.name == column.Text })
		if !alive {
			z.found(Finding{Kind: DeadColumn, Row: -1, Other: -1, Pos: column.Pos,
				Message: fmt.Sprintf("the column %s never matters: each of its cells matches everything", column.Text)})
		}
	}
	for i := range z.axes {
		x := &z.axes[i]
		if int(x.slot) >= len(z.t.model.fields) || slices.ContainsFunc(x.classes, func(c class) bool {
			return !slices.Equal(c.must, x.classes[0].must) || !slices.Equal(c.must, c.may)
		}) {
			continue
		}
		z.found(Finding{Kind: DeadColumn, Row: -1, Other: -1, Pos: z.t.rows[0].Pos,
			Message: fmt.Sprintf("the field %s never matters: each of its cells matches everything", z.t.model.slotName(x.slot))})
	}
}

// unreachable finds the rows that those above leave nothing.
func (z *analyser) unreachable() {
	undecided, first, n := 0, -1, 0
	for row := range z.t.rows {
		if z.past[row] {
			continue
		}
		reached, cover, decided := z.reached(row)
		switch {
		case !decided:
			if undecided++; first < 0 {
				first = row
			}
		case !reached:
			if n++; n <= maxFindings {
				z.reportUnreachable(row, cover)
			}
		}
	}
	if undecided > 0 {
		z.found(Finding{Kind: Undecided, Row: first, Other: -1, Pos: z.t.rows[first].Pos,
			Message: fmt.Sprintf("not decided whether %d rows from %s on are reached: the work bound is exhausted", undecided, z.t.rows[first].ID)})
	}
}

// reportUnreachable looks for an example of what answers instead of a row.
// cover is a row that matches all that the row matches, or -1.
func (z *analyser) reportUnreachable(row, cover int) {
	t := z.t
	f := Finding{Kind: Unreachable, Row: row, Other: cover, Pos: t.rows[row].Pos}
	var by []int
	z.examples(func(c *class) bool { return has(c.may, row) }, func(context string, at time.Time, b *Binding) bool {
		d := t.Evaluate(b)
		if d.Row < 0 || d.Row >= row || !matchAll(t.rowAtoms(row), b) {
			return false
		}
		if f.Witness == "" {
			f.Witness, f.At, f.Other = context, at, d.Row
		}
		if !slices.Contains(by, d.Row) {
			by = append(by, d.Row)
		}
		return cover >= 0 || len(by) >= 3
	})
	f.Message = t.rows[row].ID + " is never reached: "
	slices.Sort(by)
	switch {
	case cover >= 0:
		f.Message += t.rows[cover].ID + " above matches all that it matches"
	case len(by) == 0:
		f.Message += "rows above together match all that it matches"
	default:
		f.Message += "rows above together match all that it matches, among them "
		for i, other := range by {
			if i > 0 {
				f.Message += ", "
			}
			f.Message += t.rows[other].ID
		}
	}
	z.found(f)
}

func has(words []uint64, row int) bool { return words[row>>6]&(1<<(row&63)) != 0 }

// reached tells whether there is a point of the grid that a row could match
// and that no row above is certain to, and whether that was decided. Where a
// single row above covers all of the row, it is cover, otherwise -1.
func (z *analyser) reached(row int) (reached bool, cover int, decided bool) {
	if z.left < 0 {
		return false, -1, false
	}
	s := search{analyser: z, path: make([]*class, len(z.axes))}
	alive := z.above(row)
	for w := range alive {
		alive[w] &= z.certain[w]
	}
	covering := slices.Clone(alive)
	for i := range z.axes {
		x := &z.axes[i]
		c := choice{axis: i}
		implied := z.impliedBy(x, row)
		for j := range x.classes {
			if !has(x.classes[j].may, row) {
				continue
			}
			rows := x.classes[j].must[:len(alive)]
			if implied != nil && !has(x.classes[j].must, row) {
				rows = slices.Clone(rows)
				for w := range rows {
					rows[w] |= implied[w]
				}
			}
			c.add(&x.classes[j], rows)
			for w := range covering {
				covering[w] &= rows[w]
			}
		}
		if len(c.classes) == 0 {
			return false, -1, true // nothing the model allows meets the row
		}
		z.left -= len(c.classes) * (1 + len(alive)/64)
		s.order = append(s.order, c)
	}
	for w, rows := range covering {
		if rows != 0 {
			return false, w<<6 + bits.TrailingZeros64(rows), true
		}
	}
	reached, decided = s.run(alive)
	return reached, -1, decided
}

// impliedBy are the rows above a row whose cell on an axis is met by every
// value that meets the row's own cell, where classes can't tell; nil for none.
func (z *analyser) impliedBy(x *axis, row int) []uint64 {
	own := x.atomOf(row)
	if own == nil || !x.fuzzy || own.op != atomPred {
		return nil
	}
	words := make([]uint64, (row+63)/64)
	for _, e := range x.entries {
		if int(e.row) >= row {
			break
		}
		z.left--
		if e.atom.op == atomPred && implies(own.more.pred, e.atom.more.pred) {
			set1(words, e.row)
		}
	}
	return words
}

// gap looks for a context that only the default answers.
func (z *analyser) gap() {
	t := z.t
	s := search{analyser: z, path: make([]*class, len(z.axes))}
	for i := range z.axes {
		c := choice{axis: i}
		for j := range z.axes[i].classes {
			if cl := &z.axes[i].classes[j]; cl.known || z.axes[i].unknown {
				c.add(cl, cl.may)
			}
		}
		if len(c.classes) == 0 {
			return
		}
		s.order = append(s.order, c)
	}
	found, decided := s.run(z.above(len(t.rows)))
	if !decided {
		z.found(Finding{Kind: Undecided, Row: -1, Other: -1, Pos: t.rows[0].Pos,
			Message: "not decided whether the rows leave a gap: the work bound is exhausted"})
	}
	if !found {
		return
	}
	context, at := z.context(s.path)
	var b Binding
	if v, err := fastjson.Parse(context); err != nil || t.model.Bind(&b, v, at) != nil || t.Evaluate(&b).Row >= 0 {
		return
	}
	z.found(Finding{Kind: Gap, Row: -1, Other: -1, Pos: t.rows[len(t.rows)-1].Pos,
		Message: "no row matches " + context + ": the default answers", Witness: context, At: at})
}
