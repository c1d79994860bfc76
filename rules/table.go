package rules

import (
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// Reason says why a table answered as it did.
type Reason uint8

// The reasons of a decision.
const (
	// NoContext: no context was given, the default answered.
	NoContext Reason = iota + 1
	// Default: no row met the context.
	Default
	// Match: a row met the context.
	Match
	// Split: a row met the context and the caller fell into one of its
	// shares, or into the part its ramp covers.
	Split
)

var reasonNames = [...]string{NoContext: "no_context", Default: "default", Match: "match", Split: "split"}

// String returns the reason as traces spell it: no_context, default, match,
// split.
func (r Reason) String() string {
	if r == 0 || int(r) >= len(reasonNames) {
		return "unknown"
	}
	return reasonNames[r]
}

// Decision is a table's answer.
type Decision struct {
	Row     int // index into Rows, -1 for the default
	Outcome int // index into Outcomes, -1 for the default
	Reason  Reason
}

// Row describes a row of a table for traces and tools.
type Row struct {
	ID  string // the rule's id, or "row N" counted from 1
	Pos document.Position
}

// Table is a compiled matrix. It is immutable and safe for concurrent use.
type Table struct {
	model    *Model
	name     string // of Name
	variants bool   // the outcomes are keys of variants
	rows     []Row
	outcomes []*document.Node
	unique   bool             // hit: unique, rows with different values must not overlap
	columns  []*document.Node // of a matrix, the ones with conditions
	remarks  []Remark

	// The conditions of row i are atoms[ends[i-1]:ends[i]].
	atoms []atom
	ends  []int32
	// cells says where each atom came from.
	cells []cellRef
	// answers are the answers of the rows.
	answers []answer

	lazy     []int32  // the gateway's and computed fields and the segments the atoms read
	reads    []int32  // the declared fields and the gateway's that the table depends on
	instants []int64  // when the set of active rows changes, ascending
	ramps    []*ramp  // of the splits
	nested   []*Table // the tables of prerequisites, each once
	// timed are the tables with a schedule, each once: the table itself and
	// those it asks, directly or by way of others.
	timed []*Table
	// patterned are the fields that patterns look at, including the patterns of
	// segments and prerequisites.
	patterned []int32
	// readsNow is set where the answer may change at any instant.
	readsNow bool
	gateway  bool    // of ReadsGateway
	rollouts []int32 // the fields of rollouts in reads
	depth    int     // of the prerequisites
	cost     int     // of Cost
	patterns int     // of PatternSize
	// index and named find the rows. At most one is set, none where scanning the
	// rows is faster.
	index *index
	named *namedRows

	own      []int32 // reads without the fields of prerequisites
	splits   []int   // the rows with splits
	consults bool    // whether rows have splits or prerequisites
}

// cellRef is the source of an atom.
type cellRef struct {
	name string
	node *document.Node
}

// answer is the answer of a row that matches.
type answer struct {
	outcome int    // index into outcomes
	split   *split // nil for a plain value; otherwise outcome is unused
}

// Prerequisite is another table whose answer for the same binding is a
// condition of a row.
type Prerequisite struct {
	Table *Table
	// Accept are the table's outcomes that meet the condition, in
	// ascending order, and AcceptDefault reports whether its default does.
	Accept        []int
	AcceptDefault bool
}

// holds evaluates the prerequisite.
func (p *Prerequisite) holds(b *Binding) bool {
	d := b.decision(p.Table)
	if d.Outcome < 0 {
		return p.AcceptDefault
	}
	return p.accepts(d.Outcome)
}

// accepts reports whether an outcome meets the condition.
func (p *Prerequisite) accepts(outcome int) bool {
	_, ok := slices.BinarySearch(p.Accept, outcome)
	return ok
}

// Name returns what traces call the definition that the table is of, as [Options]
// has it.
func (t *Table) Name() string { return t.name }

// Salt returns the text that a row's split or ramp hashes with the unit: the id
// of the row unless the split gives another. It is empty for a row without
// either.
func (t *Table) Salt(row int) string {
	if s := t.answers[row].split; s != nil {
		return s.salt
	}
	return ""
}

// Arm returns the arm that a decision chose: the key of a variant in a table of
// variants, otherwise the name of the part of a split, or its number from 1 on.
// It is empty for the default, and for a row without a split in other tables.
func (t *Table) Arm(d Decision) string {
	if d.Row < 0 {
		return ""
	}
	return t.arm(t.answers[d.Row].split, d.Outcome)
}

// arm returns the arm of an outcome of a row with the split s, which may be nil.
func (t *Table) arm(s *split, outcome int) string {
	switch {
	case t.variants:
		return t.outcomes[outcome].Text
	case s != nil:
		return s.arms[outcome-s.first]
	}
	return ""
}

// Again returns the decision for a row that was decided before, as a cache keeps
// it by its Row and Outcome. It is not for decisions without a context.
func (t *Table) Again(row, outcome int) Decision {
	d := Decision{Row: row, Outcome: outcome, Reason: Default}
	switch {
	case row < 0:
	case t.answers[row].split != nil:
		d.Reason = Split
	default:
		d.Reason = Match
	}
	return d
}

// Outcomes returns the value cells of the rows (and of their splits).
func (t *Table) Outcomes() []*document.Node { return t.outcomes }

// Rows describes the rows, top to bottom.
func (t *Table) Rows() []Row { return t.rows }

// HasSchedule reports whether the answer depends on when it is asked for.
func (t *Table) HasSchedule() bool {
	return len(t.timed) > 0 || t.readsNow
}

// Depth returns how many tables the longest chain of prerequisites below the
// table has.
func (t *Table) Depth() int { return t.depth }

// PatternSize returns how many bytes the regular expressions of the table take
// together, about.
func (t *Table) PatternSize() int { return t.patterns }

// Fields returns the names of the declared fields the table reads and of the
// gateway's, also by way of segments, computed fields, splits and prerequisites, in
// the model's order.
func (t *Table) Fields() []string {
	names := make([]string, len(t.reads))
	for i, slot := range t.reads {
		names[i] = t.model.fields[slot].name
	}
	return names
}

// rowAtoms returns the conditions of a row.
func (t *Table) rowAtoms(row int) []atom {
	start := int32(0)
	if row > 0 {
		start = t.ends[row-1]
	}
	return t.atoms[start:t.ends[row]]
}

// rowCells returns the sources of rowAtoms.
func (t *Table) rowCells(row int) []cellRef {
	start := int32(0)
	if row > 0 {
		start = t.ends[row-1]
	}
	return t.cells[start:t.ends[row]]
}

// grow allocates rows of so many cells.
func (t *Table) grow(rows, cells int) {
	t.rows = make([]Row, 0, rows)
	t.outcomes = make([]*document.Node, 0, rows)
	t.atoms = make([]atom, 0, rows*cells)
	t.cells = make([]cellRef, 0, rows*cells)
	t.ends = make([]int32, 0, rows)
	t.answers = make([]answer, 0, rows)
}

// finish works out all that follows from the rows.
func (t *Table) finish() {
	m := t.model
	nested := make(map[*Table]struct{})
	slots := slotsOf(t.atoms)
	for _, slot := range slots {
		if int(slot) >= m.sent && slot != m.nowSlot() {
			t.lazy = append(t.lazy, slot)
		}
	}
	for i := range t.atoms {
		a := &t.atoms[i]
		switch {
		case a.op == atomConfig:
			n := a.more.config.Table
			if _, seen := nested[n]; !seen {
				nested[n] = struct{}{}
				t.nested = append(t.nested, n)
			}
		case a.slot == m.nowSlot() && a.op == atomSpan:
			for _, at := range []int64{a.span.lo, a.span.hi} {
				if at != minKey && at != maxKey {
					t.instants = append(t.instants, at)
				}
			}
		}
	}
	for i := range t.answers {
		if s := t.answers[i].split; s != nil {
			slots = append(slots, s.by)
			t.splits = append(t.splits, i)
			switch {
			case s.ramp != nil:
				t.ramps = append(t.ramps, s.ramp)
			case s.guarded:
				if s.rollout >= 0 {
					slots = append(slots, s.rollout)
				}
			default:
				s.armsJSON = t.appendArms(nil, s, s.coverage)
			}
		}
	}
	for _, slot := range slots {
		t.reads = append(t.reads, m.readsOf(slot)...)
		t.readsNow = t.readsNow || m.readsNow(slot)
	}
	slices.Sort(t.instants)
	t.instants = slices.Compact(t.instants)
	slices.Sort(t.reads)
	t.reads = slices.Compact(t.reads)
	t.own = slices.Clone(t.reads)
	t.patterned = m.patternedBy(t.atoms)
	t.ask()
	slices.Sort(t.reads)
	t.reads = slices.Compact(t.reads)
	for _, slot := range t.reads {
		if m.isRollout(slot) {
			t.rollouts = append(t.rollouts, slot)
		} else if m.isGateway(slot) {
			t.gateway = true
		}
	}
	for i := range t.answers {
		s := t.answers[i].split
		if s == nil {
			continue
		}
		if int(s.by) >= m.declared && !slices.Contains(t.lazy, s.by) {
			t.lazy = append(t.lazy, s.by)
		}
		if s.guarded && int(s.rollout) >= m.sent && !slices.Contains(t.lazy, s.rollout) {
			t.lazy = append(t.lazy, s.rollout)
		}
	}
	if len(t.rows) > scanRows {
		if t.named = newNamedRows(t, columnBudget); t.named == nil {
			t.index = newIndex(t, columnBudget)
		}
	}
	t.cost = t.estimate()
	t.consults = len(t.nested)+len(t.splits) > 0
}

// ask takes over what follows from the tables of prerequisites, which are
// finished before. Each is looked at once, because tables that ask each other
// from many rows have exponentially many paths.
func (t *Table) ask() {
	timed := make(map[*Table]struct{})
	for _, n := range t.nested {
		t.depth = max(t.depth, 1+n.depth)
		t.reads = append(t.reads, n.reads...)
		t.patterned = append(t.patterned, n.patterned...)
		t.readsNow = t.readsNow || n.readsNow
		for _, s := range n.timed {
			if _, seen := timed[s]; !seen {
				timed[s] = struct{}{}
				t.timed = append(t.timed, s)
			}
		}
	}
	slices.Sort(t.patterned)
	t.patterned = slices.Compact(t.patterned)
	if len(t.instants) > 0 || len(t.ramps) > 0 {
		t.timed = append(t.timed, t)
	}
}
