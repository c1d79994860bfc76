package rules

import (
	"strconv"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// Explanation says how a table came to its decision.
type Explanation struct {
	Decision Decision
	// Rows are all rows, top to bottom, also those below the one that
	// answered. There are none without a context.
	Rows []RowExplanation
}

// RowExplanation says whether a row meets the context and, where it does not,
// which of its cells failed first.
type RowExplanation struct {
	ID      string
	Pos     document.Position
	Matched bool
	Failure *Failure // nil when Matched
}

// Failure is a cell that did not match.
type Failure struct {
	// Field is the column: the name of a field, segment, config, from, until,
	// from and until, split or ramp.
	Field string
	// Cell is the condition as it was written.
	Cell string
	// Value is the value that it was compared with.
	Value string
	// Pos is the position of the cell.
	Pos document.Position
}

// Explain evaluates the table as Evaluate does and says for every row why it
// does or does not match. It is for people and tools, and slower than Evaluate.
func (t *Table) Explain(b *Binding) Explanation {
	e := Explanation{Decision: t.Evaluate(b)}
	if e.Decision.Reason == NoContext {
		return e
	}
	e.Rows = make([]RowExplanation, len(t.rows))
	for i, row := range t.rows {
		failure := t.explainRow(i, b)
		e.Rows[i] = RowExplanation{ID: row.ID, Pos: row.Pos, Matched: failure == nil, Failure: failure}
	}
	return e
}

// explainRow finds the first cell of a row that fails, or nil.
func (t *Table) explainRow(row int, b *Binding) *Failure {
	if f := firstFailure(t.rowAtoms(row), t.rowCells(row), b, true); f != nil {
		return f
	}
	s := t.answers[row].split
	if s == nil {
		return nil
	}
	if _, ok := s.choose(b); ok {
		return nil
	}
	return s.explain(b)
}

// firstFailure returns the first cell that fails, or nil. why asks for the
// reasons why the context is not in a segment.
func firstFailure(atoms []atom, cells []cellRef, b *Binding, why bool) *Failure {
	for i := range atoms {
		a := &atoms[i]
		if a.match(b) {
			continue
		}
		return &Failure{
			Field: cells[i].name,
			Cell:  CellText(cells[i].node),
			Value: string(a.appendValue(nil, b, why)),
			Pos:   cells[i].node.Pos,
		}
	}
	return nil
}

// shownReasons bounds how many rows of a segment an explanation goes through.
const shownReasons = 3

// appendSegment appends whether a context is in a segment and, if not, what its
// rows miss: "not staff (tags must be {any: [employee]}, is missing)". why is
// false for the segments that a segment refers to: they may be many.
func (b *Binding) appendSegment(dst []byte, slot int32, why bool) []byte {
	s := &b.model.segments[int(slot)-len(b.model.fields)]
	if b.values[slot].key == 1 {
		return append(dst, s.name...)
	}
	dst = append(append(dst, "not "...), s.name...)
	if !why {
		return dst
	}
	dst = append(dst, " ("...)
	for i, row := range s.rows {
		if i == shownReasons {
			dst = append(dst, "; and so on"...)
			break
		}
		if i > 0 {
			dst = append(dst, "; "...)
		}
		if f := firstFailure(row, s.cells[i], b, false); f != nil {
			dst = append(dst, f.Field+" must be "+f.Cell+", is "+f.Value...)
		}
	}
	return append(dst, ')')
}

// appendValue appends the value that the atom was compared with.
func (a *atom) appendValue(dst []byte, b *Binding, why bool) []byte {
	switch a.op {
	case atomEither:
		for i := range a.more.either {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			slot := a.more.either[i].slot
			if b.model.isSegment(slot) {
				dst = b.appendSegment(dst, slot, why)
				continue
			}
			dst = append(dst, b.model.slotName(slot)...)
			dst = append(dst, ": "...)
			dst = b.appendValue(dst, slot)
		}
		return dst
	case atomConfig:
		t := a.more.config.Table
		d := b.decision(t)
		if d.Row < 0 {
			return append(dst, "its default"...)
		}
		return append(append(dst, "the value of its "...), t.rows[d.Row].ID...)
	}
	if b.model.isSegment(a.slot) {
		return b.appendSegment(dst, a.slot, why)
	}
	dst = b.appendValue(dst, a.slot)
	if a.op == atomPred && a.more.pattern && b.values[a.slot].long {
		dst = append(dst, " is longer than patterns look at, so it counts as missing"...)
	}
	return dst
}

// explain says why a split left a unit to the rows below.
func (s *split) explain(b *Binding) *Failure {
	f := &Failure{Field: s.kind(), Pos: s.node.Pos, Cell: CellText(s.node)}
	name := b.model.fields[s.by].name
	bucket, ok := s.bucket(b)
	if !ok {
		f.Value = name + " is missing"
		return f
	}
	f.Value = name + " " + string(b.appendValue(nil, s.by)) + " falls on " + shareText(bucket)
	if coverage := s.covers(b); coverage < Buckets {
		f.Value += ", the coverage is " + shareText(coverage)
	}
	return f
}

// String returns the explanation of a row on one line.
func (r RowExplanation) String() string {
	if r.Matched {
		return r.ID + ": matches"
	}
	return r.ID + ": " + r.Failure.Field + " must be " + r.Failure.Cell + ", is " + r.Failure.Value
}

// String names the row that answered, or says why the default did.
func (e Explanation) String() string {
	switch d := e.Decision; {
	case d.Reason == NoContext:
		return "default: no context was given"
	case d.Row < 0:
		return "default: none of " + strconv.Itoa(len(e.Rows)) + " rows matches"
	default:
		return e.Rows[d.Row].ID + ": " + d.Reason.String()
	}
}
