package rules

import (
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// segment is a named condition: one of its rows must match.
type segment struct {
	name string
	node *document.Node
	rows [][]atom
	// cells are the sources of rows, for explanations.
	cells [][]cellRef
	lazy  []int32 // the computed fields and segments the rows read
	// reads are the slots of the declared fields the rows read, also by way
	// of computed fields and other segments.
	reads []int32
	// patterned are the slots the rows look at by patterns, also by way of
	// other segments.
	patterned []int32
	readsNow  bool // whether the rows read the instant, as expressions do
}

// match reports whether the binding meets the segment.
func (s *segment) match(b *Binding) bool {
	for _, row := range s.rows {
		if matchAll(row, b) {
			return true
		}
	}
	return false
}

// decodeSegments reads the segments. Their slots are known before their rows
// are read, so that they may refer to each other in any order.
func (m *Model) decodeSegments(n *document.Node, errs *document.Errors) {
	if n.IsNull() {
		return
	}
	if n.Shape != document.Mapping {
		errs.Add(n, "segments must be a mapping of names to lists of rows, this is %s", n.Shape)
		return
	}
	if len(n.Members) > maxSegments {
		errs.Add(n, "%d segments are declared, at most %d are supported", len(n.Members), maxSegments)
		return
	}
	for _, member := range n.Members {
		name := member.Key.Text
		if !isName(name) || name == anyWord || name == notWord {
			errs.Add(member.Key, "%q can't be the name of a segment: it must have 1 to %d letters, digits and any of . _ : / -", name, maxNameLen)
			continue
		}
		m.segmentOf[name] = int32(len(m.fields) + len(m.segments))
		m.segments = append(m.segments, segment{name: name, node: member.Key})
	}
	r := &cellReader{m: m, errs: errs}
	for _, member := range n.Members {
		if slot, ok := m.segmentOf[member.Key.Text]; ok {
			r.segmentRows(&m.segments[int(slot)-len(m.fields)], member.Value)
		}
	}
	m.remarks = r.remarks
	m.orderSegments(errs)
}

// segmentRows reads the rows of a segment.
func (r *cellReader) segmentRows(s *segment, n *document.Node) {
	if n.Shape != document.Sequence || len(n.Items) == 0 {
		r.errs.Add(n, "the segment %q must be a list of rows, each a mapping of fields to cells", s.name)
		return
	}
	for _, item := range n.Items {
		if item.Shape != document.Mapping || len(item.Members) == 0 {
			r.errs.Add(item, "a row of the segment %q must be a mapping of fields to cells", s.name)
			continue
		}
		var row []atom
		var cells []cellRef
		for _, m := range item.Members {
			if m.Key.Text == configColumn {
				r.errs.Add(m.Key, "a segment can't depend on a configuration")
				continue
			}
			row = r.column(row, m.Key, m.Value)
			for len(cells) < len(row) {
				cells = append(cells, cellRef{name: m.Key.Text, node: m.Value})
			}
		}
		s.rows, s.cells = append(s.rows, row), append(s.cells, cells)
	}
}

// orderSegments refuses cycles and works out what each segment reads.
func (m *Model) orderSegments(errs *document.Errors) {
	const (
		unseen = iota
		open
		done
	)
	state := make([]int, len(m.segments))
	var visit func(i int) bool
	visit = func(i int) bool {
		s := &m.segments[i]
		switch state[i] {
		case open:
			errs.Add(s.node, "the segment %q refers to itself, directly or by way of another", s.name)
			return false
		case done:
			return true
		}
		state[i] = open
		ok := true
		for _, slot := range slotsOf(s.rows...) {
			if int(slot) >= len(m.fields) && ok {
				ok = visit(int(slot) - len(m.fields))
			}
			if int(slot) >= m.sent {
				s.lazy = append(s.lazy, slot)
			}
			s.reads = append(s.reads, m.readsOf(slot)...)
			s.readsNow = s.readsNow || m.readsNow(slot)
		}
		s.patterned = m.patternedBy(s.rows...)
		state[i] = done
		if !ok {
			// Without rows, nothing can follow the cycle.
			s.rows, s.lazy = nil, nil
		}
		slices.Sort(s.reads)
		s.reads = slices.Compact(s.reads)
		return ok
	}
	for i := range m.segments {
		visit(i)
	}
}

// readsOf returns the declared fields behind a slot.
func (m *Model) readsOf(slot int32) []int32 {
	switch i := int(slot); {
	case i < m.declared:
		return []int32{slot}
	case i < len(m.fields):
		return m.fields[i].reads
	case slot < m.nowSlot():
		return m.segments[i-len(m.fields)].reads
	}
	return nil
}

// readsNow reports whether an expression behind a slot reads the instant of the
// request.
func (m *Model) readsNow(slot int32) bool {
	switch i := int(slot); {
	case i < len(m.fields):
		return m.fields[i].readsNow
	case slot < m.nowSlot():
		return m.segments[i-len(m.fields)].readsNow
	}
	return false
}

// patternedBy returns the slots of fields that rows of atoms look at by patterns,
// each once, in ascending order.
func (m *Model) patternedBy(rows ...[]atom) []int32 {
	var slots []int32
	for _, row := range rows {
		for i := range row {
			switch a := &row[i]; {
			case a.op == atomEither:
				slots = append(slots, m.patternedBy(a.more.either)...)
			case a.op == atomPred && a.more.pattern:
				slots = append(slots, a.slot)
			case m.isSegment(a.slot):
				slots = append(slots, m.segments[int(a.slot)-len(m.fields)].patterned...)
			}
		}
	}
	slices.Sort(slots)
	return slices.Compact(slots)
}

// slotsOf returns the slots that rows of atoms test, each once, in ascending
// order.
func slotsOf(rows ...[]atom) []int32 {
	var slots []int32
	for _, row := range rows {
		for i := range row {
			if row[i].op == atomEither {
				slots = append(slots, slotsOf(row[i].more.either)...)
				continue
			}
			slots = append(slots, row[i].slot)
		}
	}
	slices.Sort(slots)
	return slices.Compact(slots)
}

// isName reports whether s is 1 to 256 of the characters keys are made of.
func isName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '.', c == '_', c == ':', c == '/', c == '-':
		default:
			return false
		}
	}
	return s != "" && len(s) <= maxNameLen
}
