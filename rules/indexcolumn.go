package rules

import (
	"cmp"
	"slices"
)

// columnsOf returns the columns of one slot. Cells such as "*.com" go into a column
// of ends if there are some, all others into the first. In the column without its
// cell, a row is in the bitmaps of all classes.
func (x *index) columnsOf(m *Model, slot int32, entries []entry) []*columnBuilder {
	if len(entries) == 0 {
		return nil
	}
	rest := &columnBuilder{index: x, column: column{slot: slot}, entries: entries}
	if int(slot) >= len(m.fields) || m.fields[slot].typ != stringField {
		if int(slot) < len(m.fields) && m.fields[slot].typ == listField {
			rest.kind = elementColumn
		}
		return []*columnBuilder{rest}
	}
	columns := []*columnBuilder{rest}
	var ends, others []entry
	for _, e := range entries {
		if _, ok := endsOf(e.atom); ok {
			ends = append(ends, e)
		} else {
			others = append(others, e)
		}
	}
	if len(ends) >= leastEnds {
		rest.entries = others
		columns = append(columns, &columnBuilder{index: x, column: column{slot: slot, kind: endColumn}, entries: ends})
		if len(others) == 0 {
			return columns[1:]
		}
	}
	rest.kind = pointColumn
	if slices.ContainsFunc(rest.entries, hasSpans) {
		rest.kind = strColumn
	}
	return columns
}

// build makes the bitmaps of the column.
func (b *columnBuilder) build() {
	b.wildcards()
	switch b.kind {
	case endColumn:
		b.strs = buildSpans(b, strDomain, endsOf)
	case intColumn:
		b.ints = buildSpans(b, intDomain, intsOf)
	case strColumn:
		b.strs = buildSpans(b, strDomain, strsOf)
	case pointColumn:
		b.buildPoints()
	case elementColumn:
		b.buildElements()
	}
}

// columnBuilder makes the bitmaps of a column.
type columnBuilder struct {
	*index
	column
	maps    []uint64
	passes  float64 // rows in a word of a bitmap, on average
	entries []entry
	missing []uint64 // the rows that match a missing value
	base    []uint64 // the rows in the bitmaps of all values
	// literals are the texts of all cells, each with its class.
	literals map[string]uint32
}

// hasSpans reports whether a cell is a set of more than single texts.
func hasSpans(e entry) bool { return e.atom.op == atomPred && e.atom.more.pred.op == inStrs }

// bitmap returns the bitmap of a class.
func (b *columnBuilder) bitmap(class uint32) []uint64 {
	start := int(class) * b.words
	return b.maps[start : start+b.words : start+b.words]
}

// wildcards finds the rows that have no cell in the column.
func (b *columnBuilder) wildcards() {
	b.base = slices.Clone(b.live)
	for _, e := range b.entries {
		clear1(b.base, e.row)
	}
	b.missing = slices.Clone(b.base)
	for _, e := range b.entries {
		if e.atom.onMissing {
			set1(b.missing, e.row)
		}
	}
}

// opaque enters a cell that is no set of classes: its row is in the bitmaps of
// all values, and is tested when they find it.
func (b *columnBuilder) opaque(e entry) {
	set1(b.base, e.row)
	set1(b.verify, e.row)
}

// allocate allocates the bitmaps of n classes behind the first ones. Where
// they would exceed the budget, 2, 4, 8, ... neighbours share a bitmap, and all
// rows with a cell in the column are tested when found.
func (b *columnBuilder) allocate(first, n int) {
	limit := max(b.budget/(8*b.words)-first, 1)
	for (n+(1<<b.shift)-1)>>b.shift > limit {
		b.shift++
	}
	classes := first + (n+(1<<b.shift)-1)>>b.shift
	b.maps = make([]uint64, classes*b.words)
	if b.shift > 0 {
		for _, e := range b.entries {
			set1(b.verify, e.row)
		}
	}
}

// intsOf returns the set of integer keys a cell matches.
func intsOf(a *atom) (intSet, bool) {
	switch p := condOf(a).pred; p.op {
	case never:
		return nil, true
	case always:
		return intDomain.all(), true
	case inInts:
		return p.ints, true
	}
	return nil, false
}

// strsOf returns the set of string keys a cell matches.
func strsOf(a *atom) (strSet, bool) {
	switch p := condOf(a).pred; p.op {
	case never:
		return nil, true
	case always:
		return strDomain.all(), true
	case inStrs:
		return p.strs, true
	}
	return nil, false
}

const (
	// maxEnd is how many bytes a text may have to be looked up by its end.
	maxEnd = 64
	// leastEnds is the number of cells from which on a column of ends pays.
	leastEnds = 4
)

// endsOf returns the set of string keys, read backwards, that a cell with an end or
// with one of several matches. An end is a beginning there, and texts with a common
// beginning are a span: "*.com" becomes the texts from "moc." up to "moc/".
func endsOf(a *atom) (strSet, bool) {
	if a.op != atomPred {
		return nil, false
	}
	ends := []*pred{a.more.pred}
	if ends[0].op == oneOf {
		ends = ends[0].args
	}
	var s strSet
	for _, p := range ends {
		if p.op != suffix || len(p.text) > maxEnd {
			return nil, false
		}
		backwards := []byte(p.text)
		slices.Reverse(backwards)
		s = append(s, startingWith(string(backwards)))
	}
	return strDomain.normalize(s), true
}

// elementsOf returns the texts of which a list must have one to match a cell.
func elementsOf(a *atom) ([]string, bool) {
	if a.op == atomPred && a.more.pred.op == some && a.more.pred.args[0].op == inStrs {
		return points(a.more.pred.args[0].strs)
	}
	return nil, false
}

// buildSpans makes the bitmaps of the intervals between the ends of all cells'
// spans, by one sweep over them. For the cells 10..20, 15.. and any of the rows
// 0, 1 and 2, the bounds are 10, 15 and 20+ (the next number above 20), and the
// sweep keeps the rows whose span it is in:
//
//	interval   begins       ends    rows
//	0          (any value)          {2}      below 10
//	1          row 0                {0,2}    from 10
//	2          row 1                {0,1,2}  from 15
//	3                       row 0   {1,2}    from 20+
//
// With a shift of 1, the intervals 0 and 1 share the bitmap {0,2}, and 2 and 3
// share {0,1,2}: a shared bitmap has all rows of its intervals.
func buildSpans[K cmp.Ordered](b *columnBuilder, d domain[K], setOf func(*atom) (set[K], bool)) []K {
	var bounds []K
	sets := make([]set[K], len(b.entries))
	for i, e := range b.entries {
		s, ok := setOf(e.atom)
		if !ok {
			b.opaque(e)
			continue
		}
		sets[i] = s
		for _, sp := range s {
			if sp.lo != d.least {
				bounds = append(bounds, sp.lo)
			}
			if sp.hi != d.open {
				bounds = append(bounds, sp.hi)
			}
		}
	}
	slices.Sort(bounds)
	bounds = slices.Compact(bounds)

	// The interval i begins at bounds[i-1]; the first one has no beginning.
	type event struct {
		interval uint32
		row      int32
	}
	var begin, end []event
	for i, e := range b.entries {
		for _, sp := range sets[i] {
			begin = append(begin, event{uint32(above(bounds, sp.lo)), e.row})
			if sp.hi != d.open {
				end = append(end, event{uint32(above(bounds, sp.hi)), e.row})
			}
		}
	}
	byInterval := func(a, b event) int { return cmp.Compare(a.interval, b.interval) }
	slices.SortFunc(begin, byInterval)
	slices.SortFunc(end, byInterval)

	intervals := len(bounds) + 1
	b.allocate(otherClass, intervals)
	copy(b.bitmap(missingClass), b.missing)
	rows := slices.Clone(b.base)
	for i := range uint32(intervals) {
		group := b.bitmap(otherClass + i>>b.shift)
		for len(end) > 0 && end[0].interval == i {
			clear1(rows, end[0].row)
			end = end[1:]
		}
		for len(begin) > 0 && begin[0].interval == i {
			set1(rows, begin[0].row)
			set1(group, begin[0].row)
			begin = begin[1:]
		}
		if i&(1<<b.shift-1) == 0 {
			copy(group, rows)
		}
	}
	return bounds
}

// number gives each distinct text a number from 0 on.
func (b *columnBuilder) number(texts func(*atom) []string) {
	b.literals = make(map[string]uint32)
	for _, e := range b.entries {
		for _, s := range texts(e.atom) {
			if _, ok := b.literals[s]; !ok {
				b.literals[s] = uint32(len(b.literals))
			}
		}
	}
}

// classify turns the numbers of texts into classes from first on.
func (b *columnBuilder) classify(first uint32) {
	b.allocate(int(first), len(b.literals))
	for s, n := range b.literals {
		b.literals[s] = first + n>>b.shift
	}
}

// buildPoints makes the bitmaps of a column of single texts. The cell pro sets
// its row's bit for the text pro; not free sets it for all texts and for those
// that no cell names, and clears it for free.
func (b *columnBuilder) buildPoints() {
	for _, e := range b.entries {
		switch e.atom.op {
		case atomAlways, atomNotIn:
			set1(b.base, e.row)
		case atomPred:
			b.opaque(e)
		}
	}
	b.number((*atom).literals)
	b.classify(firstLiteral)
	b.texts = newTextClasses(b.literals)
	copy(b.bitmap(missingClass), b.missing)
	for class := otherClass; class*b.words < len(b.maps); class++ {
		copy(b.bitmap(uint32(class)), b.base)
	}
	for _, e := range b.entries {
		for _, s := range e.atom.literals() {
			switch m := b.bitmap(b.literals[s]); {
			case e.atom.op != atomNotIn:
				set1(m, e.row)
			case b.shift == 0: // else the row may match another text of the class
				clear1(m, e.row)
			}
		}
	}
}

// literals returns the texts a cell of a point column names.
func (a *atom) literals() []string {
	switch a.op {
	case atomEqual:
		return []string{a.text}
	case atomIn, atomNotIn:
		return a.more.texts
	}
	return nil
}

// buildElements makes the bitmaps of a column of lists. The bitmap of an
// element has only the rows that ask for it; evaluation adds the rows of the
// other class, which need no element. With row 0 asking for tags a, row 1 for
// [b, c] and row 2 for nothing, the list [b, x] finds the rows {1} of b and the
// rows {2} of the other class.
func (b *columnBuilder) buildElements() {
	texts := func(a *atom) []string {
		s, _ := elementsOf(a)
		return s
	}
	for _, e := range b.entries {
		if e.atom.op == atomAlways {
			set1(b.base, e.row)
		} else if _, ok := elementsOf(e.atom); !ok && e.atom.op != atomNever {
			b.opaque(e)
		}
	}
	b.number(texts)
	b.classify(firstElement)
	b.elements = b.literals
	copy(b.bitmap(missingClass), b.missing)
	copy(b.bitmap(otherClass), b.base)
	whole := b.bitmap(anyClass)
	copy(whole, b.base)
	for _, e := range b.entries {
		for _, s := range texts(e.atom) {
			set1(b.bitmap(b.literals[s]), e.row)
			set1(whole, e.row)
		}
	}
}
