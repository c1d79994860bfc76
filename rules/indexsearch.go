package rules

import "math/bits"

// evaluate finds the first row whose bit is set in the bitmaps of all columns
// for the binding's values.
func (x *index) evaluate(t *Table, b *Binding) Decision {
	if x.words == 1 && !x.hasList {
		return x.evaluateWord(t, b)
	}
	var (
		at   [maxColumns]uint32 // where the bitmaps begin, most selective first; 0 is that of all rows
		n    int
		test bool
	)
	outer := len(b.unions)
	for i := range x.columns {
		c := &x.columns[i]
		if v := &b.values[c.slot]; c.kind == elementColumn && v.state == present {
			test = !x.union(c, v.list, b) || test
		} else {
			at[n] = x.bitmap(c, c.class(v))
			n++
		}
	}
	unions := b.unions[outer:]
	for w := 0; ; w++ {
		var rows uint64
		if w, rows = x.next(&at, n, unions, w); rows == 0 {
			break
		}
		if d, ok := x.decide(t, b, w, rows, test); ok {
			b.unions = b.unions[:outer]
			return d
		}
	}
	b.unions = b.unions[:outer]
	return Decision{Row: -1, Outcome: -1, Reason: Default}
}

// bitmap returns where the bitmap of a class begins.
func (x *index) bitmap(c *column, class uint32) uint32 { return c.start + uint32(x.words)*class }

// union appends the rows that a list finds to those of the binding: with tags [a, b],
// the rows that ask for a, for b, or for no tag. It reports false if the list has so
// many elements that it finds all rows which any list could match.
func (x *index) union(c *column, list []string, b *Binding) bool {
	bitmap := func(class uint32) []uint64 {
		start := int(x.bitmap(c, class))
		return x.maps[start : start+x.words]
	}
	start, found := len(b.unions), 0
	b.unions = append(b.unions, bitmap(otherClass)...)
	rows := b.unions[start:]
	for _, item := range list {
		class, ok := c.elements[item]
		if !ok {
			continue
		}
		if found++; found > maxElements {
			copy(rows, bitmap(anyClass))
			return false
		}
		for w, word := range bitmap(class) {
			rows[w] |= word
		}
	}
	return true
}

// evaluateWord is evaluate for tables of up to 64 rows without lists: all rows are
// tried at once, and no column is looked at once none is left.
func (x *index) evaluateWord(t *Table, b *Binding) Decision {
	rows := x.maps[0]
	for i := range x.columns {
		c := &x.columns[i]
		if rows &= x.maps[c.start+c.class(&b.values[c.slot])]; rows == 0 {
			break
		}
	}
	if d, ok := x.decide(t, b, 0, rows, false); ok {
		return d
	}
	return Decision{Row: -1, Outcome: -1, Reason: Default}
}

// decide goes through the rows of a word. With test, all are tested, otherwise
// only the rows that the bitmaps don't decide.
func (x *index) decide(t *Table, b *Binding, w int, rows uint64, test bool) (Decision, bool) {
	for ; rows != 0; rows &= rows - 1 {
		bit := bits.TrailingZeros64(rows)
		row := w<<6 + bit
		if (test || x.verify[w]&(1<<bit) != 0) && !matchAll(t.rowAtoms(row), b) {
			continue
		}
		if d, ok := t.decide(row, b); ok {
			return d, true
		}
	}
	return Decision{}, false
}

// next finds the first word from w on in which the n bitmaps and the unions have a bit
// in common, and returns those bits; 0 if there is no such word. Of a large table most
// words have none: without a branch for each bitmap they are passed several times
// faster.
func (x *index) next(at *[maxColumns]uint32, n int, unions []uint64, w int) (int, uint64) {
	words := x.words
	from := func(i int) []uint64 { return x.maps[at[i] : int(at[i])+words] }
	m0 := from(0)
	m1, m2, m3, m4 := from(1)[:len(m0)], from(2)[:len(m0)], from(3)[:len(m0)], from(4)[:len(m0)]
	for ; w+4 <= len(m0); w += 4 {
		a, b, c, d, e := (*[4]uint64)(m0[w:]), (*[4]uint64)(m1[w:]), (*[4]uint64)(m2[w:]), (*[4]uint64)(m3[w:]), (*[4]uint64)(m4[w:])
		if a[0]&b[0]&c[0]&d[0]&e[0]|a[1]&b[1]&c[1]&d[1]&e[1]|a[2]&b[2]&c[2]&d[2]&e[2]|a[3]&b[3]&c[3]&d[3]&e[3] != 0 {
			break
		}
	}
	for ; w < len(m0); w++ {
		rows := m0[w] & m1[w] & m2[w] & m3[w] & m4[w]
		for i := 5; i < n; i++ {
			rows &= x.maps[int(at[i])+w]
		}
		for start := w; start < len(unions); start += words {
			rows &= unions[start]
		}
		if rows != 0 {
			return w, rows
		}
	}
	return words, 0
}
