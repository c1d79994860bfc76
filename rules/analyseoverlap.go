package rules

import (
	"cmp"
	"fmt"
	"math/bits"
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

// rowGroup is rows that name a single value of the same fields.
type rowGroup struct {
	slots []int32 // sorted
	rows  []int32
}

// maxGroups is how many groups of rows there are at most.
const maxGroups = 64

// candidates returns the pairs of rows that no pair of cells keeps apart, in the
// order of the second, then the first. It reports whether they are all.
//
// Comparing every pair of rows takes too long for a list of 100,000 customers,
// so rows that name single values are joined by these as a database joins
// tables by a key. For example,
//
//	row 0: { customer: c1, plan: pro }
//	row 1: { customer: c2, plan: pro }
//	row 2: { customer: c1 }
//	row 3: { seats: 10.. }
//
// are three groups by the fields of which they name a single value: rows 0 and 1
// (customer and plan), row 2 (customer), row 3 (none). Within the first, the
// keys "c1 pro" and "c2 pro" differ: no pair. The first and the second have
// customer in common: c1 joins rows 0 and 2. The last group has nothing in
// common with others and is compared with every row: (0,3), (1,3), (2,3). The
// solver is asked about four pairs in place of six, and in a list of customers
// about none.
func (z *analyser) candidates() (pairs [][2]int, complete bool) {
	t := z.t
	groups := make(map[string]*rowGroup)
	var list []*rowGroup
	for row := range t.rows {
		if z.past[row] {
			continue
		}
		slots := t.pointSlots(row)
		if len(list) >= maxGroups-1 && groups[slotsKey(slots)] == nil {
			slots = nil
		}
		key := slotsKey(slots)
		if groups[key] == nil {
			groups[key] = &rowGroup{slots: slots}
			list = append(list, groups[key])
		}
		groups[key].rows = append(groups[key].rows, int32(row))
	}
	j := joiner{z: z}
	for i, a := range list {
		for _, b := range list[i:] {
			if !j.join(a, b) {
				return nil, false
			}
		}
	}
	slices.SortFunc(j.pairs, func(a, b [2]int) int { return cmp.Or(cmp.Compare(a[1], b[1]), cmp.Compare(a[0], b[0])) })
	return j.pairs, true
}

// pointSlots returns the fields of which a row names a single value.
func (t *Table) pointSlots(row int) []int32 {
	var slots []int32
	atoms := t.rowAtoms(row)
	for i := range atoms {
		if _, ok := atoms[i].point(); ok && !slices.Contains(slots, atoms[i].slot) {
			slots = append(slots, atoms[i].slot)
		}
	}
	slices.Sort(slots)
	return slots
}

// point returns the single value that meets an atom, where there is one.
func (a *atom) point() (string, bool) {
	switch {
	case a.onMissing:
	case a.op == atomEqual:
		return a.text, true
	case a.op == atomSpan && a.span.hi == a.span.lo+1:
		return strconv.FormatInt(a.span.lo, 36), true
	}
	return "", false
}

func slotsKey(slots []int32) string {
	var b []byte
	for _, s := range slots {
		b = strconv.AppendInt(append(b, ','), int64(s), 10)
	}
	return string(b)
}

// joiner collects pairs of rows.
type joiner struct {
	z     *analyser
	pairs [][2]int
}

// join adds the pairs of two groups, or of a group with itself.
func (j *joiner) join(a, b *rowGroup) bool {
	var common []int32
	for _, slot := range a.slots {
		if slices.Contains(b.slots, slot) {
			common = append(common, slot)
		}
	}
	if len(common) == 0 {
		return j.compare(a.rows, b.rows, a == b)
	}
	j.z.left -= len(a.rows) + len(b.rows)
	Buckets := make(map[string][]int32, len(a.rows))
	for _, row := range a.rows {
		key := j.key(row, common)
		Buckets[key] = append(Buckets[key], row)
	}
	if a == b {
		for _, rows := range Buckets {
			if !j.compare(rows, rows, true) {
				return false
			}
		}
		return j.z.left >= 0
	}
	with := make(map[string][]int32)
	for _, row := range b.rows {
		if key := j.key(row, common); Buckets[key] != nil {
			with[key] = append(with[key], row)
		}
	}
	for key, rows := range with {
		if !j.compare(Buckets[key], rows, false) {
			return false
		}
	}
	return j.z.left >= 0
}

// key returns the values a row has of some fields.
func (j *joiner) key(row int32, slots []int32) string {
	var b []byte
	atoms := j.z.t.rowAtoms(int(row))
	for _, slot := range slots {
		for i := range atoms {
			if text, ok := atoms[i].point(); ok && atoms[i].slot == slot {
				b = append(strconv.AppendInt(b, int64(len(text)), 10), ':')
				b = append(b, text...)
				break
			}
		}
	}
	return string(b)
}

// compare adds the pairs of a row of each list that cells don't keep apart.
func (j *joiner) compare(a, b []int32, same bool) bool {
	if len(a)*len(b) > 10_000 {
		if slot, ok := j.spanned(a, b); ok {
			return j.sweep(a, b, same, slot)
		}
	}
	if j.z.left -= len(a)*len(b)/pairsPerStep + 1; j.z.left < 0 {
		return false
	}
	for i, x := range a {
		rest := b
		if same {
			rest = b[i+1:]
		}
		for _, y := range rest {
			j.pair(x, y)
		}
	}
	return true
}

func (j *joiner) pair(x, y int32) {
	t := j.z.t
	first, second := t.rowAtoms(int(x)), t.rowAtoms(int(y))
	for i := range first {
		for k := range second {
			if first[i].slot == second[k].slot && apart(&first[i], &second[k]) {
				return
			}
		}
	}
	j.pairs = append(j.pairs, [2]int{int(min(x, y)), int(max(x, y))})
}

// spanned finds a field of which all rows have a range of numbers or dates.
func (j *joiner) spanned(lists ...[]int32) (int32, bool) {
	t := j.z.t
	for _, first := range t.rowAtoms(int(lists[0][0])) {
		slot := first.slot
		all := true
		for _, rows := range lists {
			for _, row := range rows {
				all = all && j.spanOf(row, slot) != nil
			}
		}
		if all && j.spanOf(lists[0][0], slot) != nil {
			return slot, true
		}
	}
	return 0, false
}

func (j *joiner) spanOf(row, slot int32) *atom {
	atoms := j.z.t.rowAtoms(int(row))
	i := slices.IndexFunc(atoms, func(a atom) bool { return a.slot == slot && a.op == atomSpan && !a.onMissing })
	if i < 0 {
		return nil
	}
	return &atoms[i]
}

// sweep is compare for rows with a range each. It goes through the ranges by
// their lower ends and pairs each with those that have not ended: of 0..10,
// 5..15 and 20..30 only the first two, as both have ended where the third
// begins.
func (j *joiner) sweep(a, b []int32, same bool, slot int32) bool {
	type side struct {
		row    int32
		second bool
		span[int64]
	}
	var all []side
	for _, row := range a {
		all = append(all, side{row, same, j.spanOf(row, slot).span})
	}
	if !same {
		for _, row := range b {
			all = append(all, side{row, true, j.spanOf(row, slot).span})
		}
	}
	j.z.left -= len(all) * bits.Len(uint(len(all))) / pairsPerStep
	slices.SortFunc(all, func(x, y side) int { return cmp.Compare(x.lo, y.lo) })
	var active []side
	for _, next := range all {
		active = slices.DeleteFunc(active, func(s side) bool { return s.hi <= next.lo })
		if j.z.left -= 1 + len(active)/pairsPerStep; j.z.left < 0 {
			return false
		}
		for _, s := range active {
			if same || s.second != next.second {
				j.pair(s.row, next.row)
			}
		}
		active = append(active, next)
	}
	return true
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

// above returns the bitmap of the rows above a row.
func (z *analyser) above(row int) []uint64 {
	words := make([]uint64, (row+63)/64)
	for i := range words {
		words[i] = ^uint64(0)
	}
	if row&63 != 0 {
		words[row>>6] = 1<<(row&63) - 1
	}
	return words
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
