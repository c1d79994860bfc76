package rules

// MaxSplits is how many splits that gave no arm a trail has at most. Those that
// gave one are always in it.
const MaxSplits = 100

// Trail is the basis of a decision apart from the context: the splits and the
// tables that were asked. A zero Trail is ready, and [Trail.Reset] makes it ready
// again. One trail may be of several tables that answered for one binding.
type Trail struct {
	// Splits are the splits and ramps that were consulted, in the order they were,
	// including splits of prerequisites and splits that passed the unit on. After
	// them come those that [Trail.Rest] appends.
	Splits []Consulted
	// Asked are the tables of the prerequisites that were consulted, and the
	// tables of [Trail.Ask], each once.
	Asked []*Table

	seen  map[*Table]bool // the tables in the trail; true: it is in Asked
	tried []*Table        // those of them whose rows were gone through, in their order
}

// Consulted is a split or ramp that a unit came to, or of [Trail.Rest].
type Consulted struct {
	Table  *Table
	Row    int    // index into the table's Rows
	Bucket uint32 // of the unit, from 0 to 99,999
	// Share is how many of the 100,000 buckets were covered at that instant: of
	// the arm's buckets, or for a unit that was passed on, of all of them.
	Share uint32
	Arm   string // empty: the unit was passed on
	Field string // whose value is the unit
	// Rollout is the number of the row that gave a guarded split its share, 0 where that is
	// not known. Uncompared says that the guard compares the unit with nothing.
	Rollout    int64
	Uncompared bool
	// Unconsulted says that the unit did not come to the split. Share and Arm are
	// then empty.
	Unconsulted bool
}

// Reset empties the trail.
func (tr *Trail) Reset() {
	clear(tr.Splits)
	clear(tr.Asked)
	clear(tr.tried)
	tr.Splits, tr.Asked, tr.tried = tr.Splits[:0], tr.Asked[:0], tr.tried[:0]
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
func (t *Table) AppendTrail(trail *Trail, b *Binding) {
	if _, seen := trail.seen[t]; seen {
		return
	}
	if trail.seen == nil {
		trail.seen = make(map[*Table]bool)
	}
	trail.seen[t] = false
	if !t.consults || !t.tries(b) {
		return
	}
	trail.tried = append(trail.tried, t)
	before := b.trail
	b.trail = trail
	t.Evaluate(b)
	b.trail = before
}

// Ask appends a table that was evaluated for the binding and is no
// prerequisite, for a value that an answer has from it, and the splits and
// tables that it consulted.
func (tr *Trail) Ask(t *Table, b *Binding) {
	b.decision(t)
	tr.ask(t, b)
}

// Rest appends the splits of the trail's tables that were not consulted and whose unit
// is there: a row above them decided, or another cell of their row did not match. They
// tell what the unit would get if it came to them. It is called once, after all tables.
func (tr *Trail) Rest(b *Binding) {
	consulted := tr.Splits
	for _, t := range tr.tried {
		next := 0 // the rows of a table are consulted from top to bottom
		for _, row := range t.splits {
			for next < len(consulted) && (consulted[next].Table != t || consulted[next].Row < row) {
				next++
			}
			if next < len(consulted) && consulted[next].Row == row {
				continue
			}
			if len(tr.Splits) >= MaxSplits {
				return
			}
			if s := t.answers[row].split; b.values[s.by].state == present {
				bucket, _ := s.bucket(b)
				c := Consulted{Table: t, Row: row, Bucket: bucket, Field: t.model.fields[s.by].name, Unconsulted: true}
				if s.guarded {
					c.Rollout, c.Uncompared = b.rolloutRow(s.rollout), !isCompared(bucket, s.covers(b))
				}
				tr.Splits = append(tr.Splits, c)
			}
		}
	}
}

// ask appends a prerequisite and the splits and tables that it consulted.
func (tr *Trail) ask(t *Table, b *Binding) {
	if tr.seen[t] {
		return
	}
	tr.Asked = append(tr.Asked, t)
	t.AppendTrail(tr, b)
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
	if s.guarded {
		c.Rollout = b.rolloutRow(s.rollout)
	}
	if c.Arm == "" && len(tr.Splits) >= MaxSplits {
		return
	}
	tr.Splits = append(tr.Splits, c)
}

// consulted returns the result of a split for a unit in a bucket.
func (s *split) consulted(t *Table, row int, bucket, coverage uint32) Consulted {
	c := Consulted{Table: t, Row: row, Bucket: bucket, Field: t.model.fields[s.by].name}
	if part := s.part(bucket, coverage); part >= 0 {
		c.Share, c.Arm = s.covered(part, coverage), t.arm(s, s.shares[part].outcome)
		if c.Uncompared = s.guarded && !isCompared(bucket, coverage); c.Uncompared && coverage < Buckets {
			c.Share = Buckets - 2*coverage
		}
		return c
	}
	for i := range s.shares {
		c.Share += s.shares[i].covered(coverage)
	}
	return c
}
