package rules

import (
	"fmt"
	"slices"
	"time"
)

// Analysis says what to look for.
type Analysis struct {
	// Budget bounds the work, in steps of very roughly 100 ns. Zero means
	// DefaultBudget.
	Budget int
	// Now is the instant from which on the table is looked at. It decides
	// which rows have expired, and may not be zero.
	Now time.Time
	// Equal reports whether two outcomes are the same value. Without it no two
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

// Analyse looks for mistakes in a table: rows that never match, are never
// reached or have expired, rows to which splits above leave less than it seems,
// columns that never matter and, on demand, overlaps and gaps. Its findings are
// certain, for texts that are not too long for patterns. Questions that it can't
// decide, or not within the budget, are findings of the kind Undecided.
func (t *Table) Analyse(a Analysis) []Finding {
	if a.Budget <= 0 {
		a.Budget = DefaultBudget
	}
	if len(t.rows) == 0 {
		return nil
	}
	z := analyser{t: t, a: a, left: a.Budget}
	z.solver = newSolver(t, a.Now, &z.left)
	z.expired()
	z.deadColumns()
	z.unreachable()
	z.withoutUnit()
	z.sameUnits()
	if a.Overlaps || t.unique {
		z.overlaps()
	}
	if a.Gaps {
		z.gap()
	}
	return z.findings
}

// ChangesWithin reports whether the set of active rows, or that of a
// prerequisite, changes after one instant and up to another, or a ramp ends, so
// that an analysis of the first may not be that of the second.
func (t *Table) ChangesWithin(from, to time.Time) bool {
	seen := make(map[*Table]bool)
	var changes func(t *Table) bool
	changes = func(t *Table) bool {
		if seen[t] {
			return false
		}
		seen[t] = true
		ends := func(r *ramp) bool { return dateKey(from) < r.end && r.end <= dateKey(to) }
		return above(t.instants, dateKey(to)) != above(t.instants, dateKey(from)) ||
			slices.ContainsFunc(t.ramps, ends) || slices.ContainsFunc(t.nested, changes)
	}
	return changes(t)
}

type analyser struct {
	t        *Table
	a        Analysis
	left     int // of the budget
	solver   *solver
	findings []Finding
	past     []bool // the rows that have expired
	reaches  []bool // the rows that are certain to be reached

	// Set by groupSplits: the rows whose splits take every unit, and the rows whose
	// splits give a unit the same bucket.
	full  []int
	alike map[unitKey][]int
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

// deadColumns finds the columns of a matrix that have no condition, and the
// fields whose conditions everything meets.
func (z *analyser) deadColumns() {
	for _, column := range z.t.columns {
		alive := slices.ContainsFunc(z.t.cells, func(c cellRef) bool { return c.name == column.Text })
		if !alive {
			z.found(Finding{Kind: DeadColumn, Row: -1, Other: -1, Pos: column.Pos,
				Message: fmt.Sprintf("the column %s never matters: each of its cells matches everything", column.Text)})
		}
	}
	m := z.t.model
	used, alive := make([]bool, len(m.fields)), make([]bool, len(m.fields))
	for i := range z.t.atoms {
		if a := &z.t.atoms[i]; int(a.slot) < len(m.fields) {
			used[a.slot] = true
			alive[a.slot] = alive[a.slot] || a.op == atomConfig || !z.everything(&m.fields[a.slot], condOf(a))
		}
	}
	for slot := range used {
		if used[slot] && !alive[slot] {
			z.found(Finding{Kind: DeadColumn, Row: -1, Other: -1, Pos: z.t.rows[0].Pos,
				Message: fmt.Sprintf("the field %s never matters: each of its cells matches everything", m.fields[slot].name)})
		}
	}
}

// everything reports whether a condition on a field is always met. It misses
// that for texts and lists whose predicates are not simply always.
func (z *analyser) everything(f *field, c cond) bool {
	if !c.onMissing && (f.program != nil || !z.t.insists(f)) {
		return false
	}
	if c.pred.op == always || f.typ == listField || f.typ == stringField && f.texts == nil {
		return c.pred.op == always
	}
	_, v := z.solver.value(f, notPred(c.pred))
	return v == empty
}

// unreachable finds the rows that match nothing, and the rows whose contexts are
// all answered by rows above. It reports nothing if only an expression or another
// table could tell.
func (z *analyser) unreachable() {
	undecided, first, n := 0, -1, 0
	z.groupSplits()
	report := func(f Finding) {
		if n++; n <= maxFindings {
			z.found(f)
		}
	}
	for row := range z.t.rows {
		if z.past[row] {
			continue
		}
		b := blocked{row: row, cover: -1}
		v := z.reach(&b, z.needs(row))
		z.reaches[row] = v == met
		switch {
		case v == empty && len(b.by) == 0:
			report(z.contradiction(row))
		case v == empty:
			report(z.blockedBy(&b))
		case v == open && !z.solver.opaque:
			if undecided++; first < 0 {
				first = row
			}
		}
	}
	if undecided > 0 {
		message := fmt.Sprintf("not decided whether %d rows from %s on are reached", undecided, z.t.rows[first].ID)
		if z.left < 0 {
			message += ": the work bound is exhausted"
		}
		z.found(Finding{Kind: Undecided, Row: first, Other: -1, Pos: z.t.rows[first].Pos, Message: message})
	}
}

// blocked is a row with the rows above that were found to answer in its place.
type blocked struct {
	row   int
	by    []blocker
	cover int // a row above that matches all that the row matches, or -1
}

// stepTime is about what a step takes, in the unit of [Table.Cost].
const stepTime = 100

// blocker is a row above that leaves nothing to a row, with a context that both
// match. first is the row that answers that context: a row further above may do so
// by a split. It is -1 if no row above does, as for a unit that neither takes.
type blocker struct {
	row, first int
	context    string
	at         time.Time
}

// maxBlockers is how many rows above the solver excludes for one row before it
// gives up.
const maxBlockers = 40

// reach looks for a context that a row answers. It asks the solver for one that
// the row matches; while a row above is certain to answer it, that row is
// excluded and the solver asked again. For row 2 of
//
//	row 0: { plan: pro }
//	row 1: { seats: 10.. }
//	row 2: { plan: [pro, team] }
//
// the solver's examples are
//
//	meet row 2                        {plan: pro}                row 0 answers
//	meet row 2, fail row 0            {plan: team}               row 2 answers
//
// so that row 2 is reached. If row 2 were { plan: pro, seats: 20.. }, there
// would be no second example: the row is never reached, and findCover finds
// that row 0 alone is enough for that.
//
// own are the row's conditions, and what else the contexts must meet.
func (z *analyser) reach(b *blocked, own []atom) verdict {
	s := z.solver
	meet := [][]atom{own}
	var fail [][]atom
	s.high = false
	defer func() { s.high = false }()
	for {
		if v := s.find(meet, fail); v != met {
			if v == empty {
				z.findCover(b, meet)
			}
			return v
		}
		above, ok := z.blocker(b.row)
		if !ok {
			return met
		}
		// Low and high values in turn leave a long chain of adjoining ranges
		// from both ends. From one end alone, each row would be a blocker.
		s.high = !s.high
		if len(b.by) == maxBlockers || slices.ContainsFunc(b.by, func(o blocker) bool { return o.row == above.row }) {
			return open
		}
		taken, _ := z.takes(above.row, b.row)
		b.by, fail = append(b.by, above), append(fail, taken)
	}
}

// blocker finds the first row above a row that leaves it nothing of the solver's
// example.
func (z *analyser) blocker(row int) (blocker, bool) {
	t, s := z.t, z.solver
	z.left -= t.Cost() / stepTime
	first := t.Evaluate(&s.b).Row
	if first >= row {
		first = -1
	}
	certain := func(other int) bool {
		z.left--
		taken, ok := z.takes(other, row)
		return ok && matchAll(taken, &s.b)
	}
	// The example's unit may be one that neither takes of two rows with one salt.
	for _, other := range z.sharing(row) {
		if certain(other) {
			return blocker{other, first, s.context, s.at}, true
		}
	}
	for other := first; first >= 0 && other < row; other++ {
		if certain(other) {
			return blocker{other, first, s.context, s.at}, true
		}
	}
	return blocker{}, false
}

// findCover finds a single row above that matches all that a row matches.
func (z *analyser) findCover(b *blocked, own [][]atom) {
	slices.SortFunc(b.by, func(x, y blocker) int { return x.row - y.row })
	for _, other := range b.by {
		taken, _ := z.takes(other.row, b.row)
		if len(b.by) == 1 || z.solver.find(own, [][]atom{taken}) == empty {
			b.cover = other.row
			return
		}
	}
}

// blockedBy returns the finding that other rows answer in place of a row.
func (z *analyser) blockedBy(b *blocked) Finding {
	t := z.t
	f := Finding{Kind: Unreachable, Row: b.row, Other: b.cover, Pos: t.rows[b.row].Pos}
	if len(b.by) > 0 {
		i := max(slices.IndexFunc(b.by, func(o blocker) bool { return o.row == b.cover }), 0)
		if o := b.by[i]; o.first >= 0 {
			f.Other, f.Witness, f.At = o.first, o.context, o.at
		}
	}
	f.Message = t.rows[b.row].ID + " is never reached: "
	if b.cover >= 0 {
		f.Message += t.rows[b.cover].ID + " above matches all that it matches" + z.takesText(b.cover)
		return f
	}
	f.Message += "rows above together match all that it matches"
	const limit = 3
	for i, other := range b.by[:min(len(b.by), limit)] {
		f.Message += []string{", among them ", ", "}[min(i, 1)] + t.rows[other.row].ID
	}
	return f
}

// contradiction says why a row matches nothing.
func (z *analyser) contradiction(row int) Finding {
	t := z.t
	f := Finding{Kind: Contradiction, Row: row, Other: -1, Pos: t.rows[row].Pos}
	atoms, cells := t.rowAtoms(row), t.rowCells(row)
	for i := range atoms {
		if z.solver.find([][]atom{atoms[i : i+1]}, nil) != empty {
			continue
		}
		f.Pos = cells[i].node.Pos
		f.Message = fmt.Sprintf("%s never matches: no %s meets %s", t.rows[row].ID, cells[i].name, CellText(cells[i].node))
		if m := t.model; int(atoms[i].slot) < len(m.fields) && m.fields[atoms[i].slot].typ == listField && cells[i].node.Get("size") != nil {
			f.Message += " (an empty list counts as missing)"
		}
		return f
	}
	f.Message = t.rows[row].ID + " never matches: its cells contradict each other"
	if s := t.answers[row].split; s != nil && z.solver.find([][]atom{atoms}, nil) != empty {
		f.Message = fmt.Sprintf("%s never answers: it divides by %s, which its cells leave without a value", t.rows[row].ID, t.model.fields[s.by].name)
		return f
	}
	for i := range cells {
		if i > 0 && cells[i].node == cells[i-1].node && z.solver.find([][]atom{atoms[i-1 : i+1]}, nil) == empty {
			f.Pos = cells[i].node.Pos
			f.Message = fmt.Sprintf("%s never matches: no context meets %s: %s", t.rows[row].ID, cells[i].name, CellText(cells[i].node))
		}
	}
	return f
}

// gap looks for a context that only the default answers: as reach does, with each
// row that matches an example excluded. Rows are not written for contexts without
// a required field, so these contexts have the required fields that the cells
// name.
func (z *analyser) gap() {
	t, s := z.t, z.solver
	var given []atom
	for i := range t.atoms {
		slot := t.atoms[i].slot
		named := slices.ContainsFunc(given, func(a atom) bool { return a.slot == slot })
		if int(slot) < t.model.declared && t.model.fields[slot].required && !named {
			given = append(given, atom{op: atomAlways, slot: slot})
		}
	}
	var fail [][]atom
	for len(fail) < maxBlockers {
		switch s.find([][]atom{given}, fail) {
		case empty:
			return
		case met:
			if row := t.firstMatch(&s.b); row >= 0 {
				fail = append(fail, t.rowAtoms(row))
				continue
			}
			z.found(Finding{Kind: Gap, Row: -1, Other: -1, Pos: t.rows[len(t.rows)-1].Pos,
				Message: "no row matches " + s.context + ": the default answers", Witness: s.context, At: s.at})
			return
		}
		break
	}
	z.found(Finding{Kind: Undecided, Row: -1, Other: -1, Pos: t.rows[0].Pos, Message: "not decided whether the rows leave a gap"})
}

// firstMatch returns the first row whose cells a binding meets, with or without a
// split, or -1.
func (t *Table) firstMatch(b *Binding) int {
	for row := range t.rows {
		if matchAll(t.rowAtoms(row), b) {
			return row
		}
	}
	return -1
}
