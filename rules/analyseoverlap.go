package rules

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
)

// pairsPerStep is how many pairs of rows are compared in a step of the budget.
const pairsPerStep = 4

// overlaps finds pairs of rows with different values that match the same.
func (z *analyser) overlaps() {
	t := z.t
	n, undecided := 0, 0
	var first Finding
	pairs, complete := z.candidates()
	for _, p := range pairs {
		a, b := p[0], p[1]
		if z.equal(a, b) {
			continue
		}
		switch z.solver.find([][]atom{t.rowAtoms(a), t.rowAtoms(b)}, nil) {
		case met:
			z.found(Finding{Kind: Overlap, Row: b, Other: a, Pos: t.rows[b].Pos, Witness: z.solver.context, At: z.solver.at,
				Message: fmt.Sprintf("%s and %s match the same context with different values", t.rows[a].ID, t.rows[b].ID)})
			if n++; n >= maxFindings {
				return
			}
		case open:
			if undecided++; undecided == 1 {
				first = Finding{Kind: Undecided, Row: b, Other: a, Pos: t.rows[b].Pos}
			}
		}
		if z.left < 0 {
			complete = false
			break
		}
	}
	switch {
	case !complete:
		z.found(Finding{Kind: Undecided, Row: -1, Other: -1, Pos: t.rows[0].Pos,
			Message: "not decided whether rows with different values match the same context: the work bound is exhausted"})
	case undecided > 0:
		first.Message = fmt.Sprintf("not decided whether %s and %s match the same context with different values", t.rows[first.Other].ID, t.rows[first.Row].ID)
		if undecided > 1 {
			first.Message += ", nor of " + strconv.Itoa(undecided-1) + " other pairs of rows"
		}
		z.found(first)
	}
}

// keyedRow is a row with the span of keys that it allows in one slot.
type keyedRow struct {
	row int
	span[string]
}

// candidates returns the pairs of rows that no pair of cells keeps apart, in the
// order of the second, then the first. It reports whether they are all.
//
// Comparing every pair of rows takes too long for a list of 100,000 customers or of
// 10,000 ranges. So rows are sorted by the beginnings of their spans in one slot, and
// each is compared with those whose spans have not ended. With the slot of seats,
//
//	row 0: { seats: 10..20 }
//	row 1: { seats: 30, plan: pro }
//	row 2: { seats: 15..25 }
//	row 3: { plan: team }
//
// has the pair (0,2), since row 1 begins behind the end of both. Row 3 has no span and
// is compared with every row.
func (z *analyser) candidates() (pairs [][2]int, complete bool) {
	t := z.t
	slot := t.widestSlot()
	var keyed, active, rest []keyedRow
	for row := range t.rows {
		s, ok := t.spanOf(row, slot)
		switch r := (keyedRow{row, s}); {
		case z.past[row]:
		case ok:
			keyed = append(keyed, r)
		default:
			rest = append(rest, r)
		}
	}
	slices.SortStableFunc(keyed, func(a, b keyedRow) int { return cmp.Compare(a.lo, b.lo) })
	compare := func(row keyedRow, others []keyedRow) bool {
		if z.left -= 1 + len(others)/pairsPerStep; z.left < 0 {
			return false
		}
		for _, other := range others {
			if !t.apart(row.row, other.row) {
				pairs = append(pairs, [2]int{min(row.row, other.row), max(row.row, other.row)})
			}
		}
		return true
	}
	for _, next := range keyed {
		active = slices.DeleteFunc(active, func(r keyedRow) bool { return r.hi != strDomain.open && r.hi <= next.lo })
		if !compare(next, active) {
			return nil, false
		}
		active = append(active, next)
	}
	for i, row := range rest {
		if !compare(row, keyed) || !compare(row, rest[:i]) {
			return nil, false
		}
	}
	slices.SortFunc(pairs, func(a, b [2]int) int { return cmp.Or(cmp.Compare(a[1], b[1]), cmp.Compare(a[0], b[0])) })
	return pairs, true
}

// widestSlot returns the slot in which the spans of rows have the most different
// beginnings.
func (t *Table) widestSlot() int32 {
	type beginning struct {
		slot int32
		key  string
	}
	seen := make(map[beginning]bool)
	counts := make([]int, t.model.nowSlot()+1)
	for i := range t.atoms {
		s, ok := t.atoms[i].keys()
		if b := (beginning{t.atoms[i].slot, s.lo}); ok && !seen[b] {
			seen[b] = true
			counts[b.slot]++
		}
	}
	return int32(slices.Index(counts, slices.Max(counts)))
}

// spanOf returns the span of keys that a row allows in a slot, if it is one.
func (t *Table) spanOf(row int, slot int32) (span[string], bool) {
	atoms := t.rowAtoms(row)
	for i := range atoms {
		if s, ok := atoms[i].keys(); ok && atoms[i].slot == slot {
			return s, true
		}
	}
	return span[string]{}, false
}

// keys returns the span of keys that an atom allows, if it is one. The bytes of
// integer keys sort as the keys do.
func (a *atom) keys() (span[string], bool) {
	text := func(key int64) string {
		return string(binary.BigEndian.AppendUint64(nil, uint64(key)^1<<63))
	}
	switch {
	case a.onMissing:
	case a.op == atomEqual:
		return point(a.text), true
	case a.op == atomSpan:
		return span[string]{text(a.span.lo), text(a.span.hi)}, true
	case a.op == atomPred && a.more.pred.op == inStrs && len(a.more.pred.strs) == 1:
		return a.more.pred.strs[0], true
	}
	return span[string]{}, false
}

// apart reports whether cells of two rows on the same field keep the rows apart.
func (t *Table) apart(x, y int) bool {
	first, second := t.rowAtoms(x), t.rowAtoms(y)
	for i := range first {
		for k := range second {
			if first[i].slot == second[k].slot && apart(&first[i], &second[k]) {
				return true
			}
		}
	}
	return false
}

// apart reports whether no value meets two cells on the same field. It only
// sees that for spans and single texts.
func apart(a, b *atom) bool {
	if a.onMissing && b.onMissing {
		return false
	}
	switch {
	case a.op == atomSpan && b.op == atomSpan:
		return a.span.hi <= b.span.lo || b.span.hi <= a.span.lo
	case a.op == atomEqual && b.op == atomEqual:
		return a.text != b.text
	case b.op == atomEqual:
		a, b = b, a
		fallthrough
	case a.op == atomEqual:
		return !b.matchesText(a.text)
	}
	return false
}

// matchesText reports whether the key of a text meets an atom.
func (a *atom) matchesText(key string) bool {
	switch a.op {
	case atomEqual:
		return a.text == key
	case atomIn:
		return a.more.has(key)
	case atomNotIn:
		return !a.more.has(key)
	case atomPred:
		return a.more.pred.matchText(key)
	}
	return a.op != atomNever
}

// equal reports whether two rows always answer the same.
func (z *analyser) equal(a, b int) bool {
	if z.a.Equal == nil {
		return false
	}
	for _, x := range z.t.answers[a].outcomes() {
		for _, y := range z.t.answers[b].outcomes() {
			if !z.a.Equal(x, y) {
				return false
			}
		}
	}
	return true
}

// outcomes returns all outcomes of a row.
func (a *answer) outcomes() []int {
	if a.split == nil {
		return []int{a.outcome}
	}
	var list []int
	for _, sh := range a.split.shares {
		list = append(list, sh.outcome)
	}
	return list
}
