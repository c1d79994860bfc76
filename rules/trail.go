package rules

// MaxSplits is how many splits that passed a unit on a trail has at most. Those
// that gave an arm are always in it.
const MaxSplits = 100

// Trail is the basis of a decision apart from the context: the splits and the
// tables that were asked. A zero Trail is ready, and [Trail.Reset] makes it ready
// again. One trail may be of several tables that answered for one binding.
type Trail struct {
	// Splits are the splits and ramps that were consulted, in the order they were,
	// including splits of prerequisites and splits that passed the unit on.
	Splits []Consulted
	// Asked are the tables of the prerequisites that were consulted, and the
	// tables of [Trail.Ask], each once.
	Asked []*Table

	seen map[*Table]bool // the tables in the trail; true: it is in Asked
}

// Consulted is a split or ramp that a unit came to.
type Consulted struct {
	Table  *Table
	Row    int    // index into the table's Rows
	Bucket uint32 // of the unit, from 0 to 99,999
	// Share is how many of the 100,000 buckets were covered at that instant: of
	// the arm's buckets, or for a unit that was passed on, of all of them.
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
func (t *Table) HasTrail() bool { return t.consults }

// AppendTrail appends the splits and tables consulted for the table's decision
// for the binding, which may have come from a cache. A table that is in the
// trail already is not gone through again.
//
// A row consults its prerequisites, in the order they are written and up to the
// first that does not hold, if all its other cells match. It consults its split if
// its prerequisites hold, too, and the field of the unit has a value. Rows below
// the one that decided consult nothing.
//
// The rows are evaluated again, so that Evaluate need not remember its steps.
// It does not allocate once the trail and the binding have grown.
func (t *Table) AppendTrail(trail *Trail, b *Binding) { trail.walk(t, b) }

// Ask appends a table that was evaluated for the binding and is no
// prerequisite, for a value that an answer has from it, and the splits and
// tables that it consulted.
func (tr *Trail) Ask(t *Table, b *Binding) {
	b.decision(t)
	tr.ask(t, b)
}

// walk goes through the rows of a table, unless it was.
func (tr *Trail) walk(t *Table, b *Binding) {
	if _, seen := tr.seen[t]; seen {
		return
	}
	if tr.seen == nil {
		tr.seen = make(map[*Table]bool)
	}
	tr.seen[t] = false
	if !t.consults || !t.tries(b) {
		return
	}
	before := b.trail
	b.trail = tr
	t.Evaluate(b)
	b.trail = before
}

// ask appends a prerequisite and the splits and tables that it consulted.
func (tr *Trail) ask(t *Table, b *Binding) {
	if tr.seen[t] {
		return
	}
	tr.Asked = append(tr.Asked, t)
	tr.walk(t, b)
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

// consulted returns the result of a split for a unit in a bucket.
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
