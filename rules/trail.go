package rules

import "slices"

// MaxSplits is how many splits that passed a unit on a trail has at most. Those
// that gave an arm are always in it.
const MaxSplits = 100

// Trail is what a decision rests on beside the context: the splits and the tables
// that were asked. A zero Trail is ready, and [Trail.Reset] makes it ready again.
// One trail may be of several tables that answered for one binding.
type Trail struct {
	// Splits are the splits and ramps that were consulted, in the order they were,
	// also those of prerequisites and those that passed the unit on.
	Splits []Consulted
	// Asked are the tables of the prerequisites that were consulted, and those of
	// [Trail.Ask], each once.
	Asked []*Table

	seen map[*Table]bool // the tables in the trail; true: it is in Asked
}

// Consulted is a split or ramp that a unit came to.
type Consulted struct {
	Table  *Table
	Row    int    // index into the table's Rows
	Bucket uint32 // of the unit, from 0 to 99,999
	// Share is how many of the 100,000 buckets were covered at that instant: of
	// those of the arm, or of a unit that was passed on, of all of them.
	Share uint32
	Arm   string // empty: the unit was passed on
	Field string // whose value is the unit
}

// Reset empties the trail.
func (tr *Trail) Reset() {
	clear(tr.Splits)
	clear(tr.Asked)
	tr.Splits, tr.Asked = tr.Splits[:0], tr.Asked[:0]
	clear(tr.seen)
}

// HasTrail reports whether the table has splits, ramps or prerequisites. Without
// them [Table.AppendTrail] has nothing to append.
func (t *Table) HasTrail() bool { return len(t.consults) > 0 }

// AppendTrail appends what the table consulted for its decision for the binding,
// which may have come from a cache. A table that is in the trail already is not
// gone through again.
//
// A row consults its prerequisites, in the order they are written and up to the
// first that does not hold, if all its other cells match. It consults its split if
// its prerequisites hold, too, and the field of the unit has a value. Rows below
// the one that decided consult nothing.
//
// The rows are evaluated again, so that Evaluate need not remember what it did.
// That takes as long as Evaluate at most, and much less where few rows have
// splits or prerequisites. It does not allocate once the trail and the binding
// have grown.
func (t *Table) AppendTrail(trail *Trail, b *Binding, d Decision) { trail.walk(t, b, d) }

// Ask appends a table that was evaluated for the binding beside those of
// prerequisites, for a value that an answer has from it, and what it consulted.
func (tr *Trail) Ask(t *Table, b *Binding) { tr.ask(t, b, b.decision(t)) }

// walk goes through the rows of a table, unless it was.
func (tr *Trail) walk(t *Table, b *Binding, d Decision) {
	if _, seen := tr.seen[t]; seen {
		return
	}
	if tr.seen == nil {
		tr.seen = make(map[*Table]bool)
	}
	tr.seen[t] = false
	if len(t.consults) == 0 || !t.tries(b) {
		return
	}
	before := b.trail
	b.trail = tr
	if t.consultsFew {
		t.walkFew(b, d)
	} else {
		t.Evaluate(b)
	}
	b.trail = before
}

// walkFew decides by those rows alone that consult something.
func (t *Table) walkFew(b *Binding, d Decision) {
	for _, slot := range t.consultsLazy {
		b.resolve(slot)
	}
	for _, row := range t.consults {
		if d.Row >= 0 && int(row) > d.Row {
			return
		}
		if !matchAll(t.rowAtoms(int(row)), b) {
			continue
		}
		if _, decided := t.decide(int(row), b); decided {
			return
		}
	}
}

// ask appends a prerequisite and what it consulted.
func (tr *Trail) ask(t *Table, b *Binding, d Decision) {
	if tr.seen[t] {
		return
	}
	tr.Asked = append(tr.Asked, t)
	tr.walk(t, b, d)
	tr.seen[t] = true
}

// consult appends the split of a row that the binding's unit came to.
func (tr *Trail) consult(t *Table, row int, b *Binding) {
	s := t.answers[row].split
	bucket, ok := s.bucket(b)
	if !ok {
		return
	}
	c := s.consulted(t, row, bucket, s.covers(b))
	if c.Arm == "" && len(tr.Splits) >= MaxSplits {
		return
	}
	tr.Splits = append(tr.Splits, c)
}

// consulted returns what a unit in a bucket came to.
func (s *split) consulted(t *Table, row int, bucket, coverage uint32) Consulted {
	c := Consulted{Table: t, Row: row, Bucket: bucket, Field: t.model.fields[s.by].name}
	if part := s.part(bucket, coverage); part >= 0 {
		sh := &s.shares[part]
		c.Share, c.Arm = sh.covered(coverage), t.arm(s, sh.outcome)
		return c
	}
	for i := range s.shares {
		c.Share += s.shares[i].covered(coverage)
	}
	return c
}

// findConsults lists the rows that AppendTrail goes through.
func (t *Table) findConsults() {
	cost := 0
	var slots []int32
	for row := range t.rows {
		atoms := t.rowAtoms(row)
		asks := len(atoms) > 0 && atoms[len(atoms)-1].op == atomConfig // these are last
		s := t.answers[row].split
		if s == nil && !asks {
			continue
		}
		t.consults = append(t.consults, int32(row))
		cost += estimateRow(atoms)
		slots = append(slots, slotsOf(atoms)...)
		if s != nil {
			slots = append(slots, s.by)
		}
	}
	t.consultsFew = cost <= t.estimateSearch()
	slices.Sort(slots)
	for _, slot := range slices.Compact(slots) {
		if slices.Contains(t.lazy, slot) {
			t.consultsLazy = append(t.consultsLazy, slot)
		}
	}
}
