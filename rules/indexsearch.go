package rules

import "math/bits"

// evaluate finds the first row whose bit is set in the bitmaps of all columns
// for the binding's values.
func (x *index) evaluate(t *Table, b *Binding) Decision {
	if x.words == 1 && len(x.lists) == 0 {
		return x.evaluateWord(t, b)
	}
	var at [maxColumns]uint32 // the offsets of the bitmaps, most selective first
	n := 0
	for i := range x.columns {
		c := &x.columns[i]
		at[n] = c.start + uint32(x.words)*c.class(&b.values[c.slot])
		n++
	}
	if len(x.lists) > 0 {
		return x.evaluateLists(t, b, &at, n)
	}
	for w := 0; ; w++ {
		var rows uint64
		if w, rows = x.next(&at, n, w); rows == 0 {
			return Decision{Row: -1, Outcome: -1, Reason: Default}
		}
		if d, ok := x.decide(t, b, w, rows, false); ok {
			return d
		}
	}
}

// evaluateWord is evaluate for tables of up to 64 rows: all of them are tried
// at once, and no column is looked at once none is left.
func (x *index) evaluateWord(t *Table, b *Binding) Decision {
	rows := x.live[0]
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
// only those that the bitmaps don't decide.
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

// next finds the first word from w on in which the bitmaps at the n offsets
// have a bit in common, and returns those bits; 0 when there is no such word.
// The loops for the usual numbers of columns differ only in how many words
// they load: without a branch for each column they are several times faster.
func (x *index) next(at *[maxColumns]uint32, n, w int) (int, uint64) {
	words := x.words
	at0 := func(i int) []uint64 { return x.maps[at[i] : int(at[i])+words] }
	switch {
	case n == 0:
		if w < words {
			return w, x.live[w]
		}
	case n == 1:
		m0 := at0(0)
		for ; w < len(m0); w++ {
			if rows := m0[w]; rows != 0 {
				return w, rows
			}
		}
	case n == 2:
		m0 := at0(0)
		m1 := at0(1)[:len(m0)]
		for ; w < len(m0); w++ {
			if rows := m0[w] & m1[w]; rows != 0 {
				return w, rows
			}
		}
	case n == 3:
		m0 := at0(0)
		m1, m2 := at0(1)[:len(m0)], at0(2)[:len(m0)]
		for ; w < len(m0); w++ {
			if rows := m0[w] & m1[w] & m2[w]; rows != 0 {
				return w, rows
			}
		}
	case n == 4:
		m0 := at0(0)
		m1, m2, m3 := at0(1)[:len(m0)], at0(2)[:len(m0)], at0(3)[:len(m0)]
		for ; w < len(m0); w++ {
			if rows := m0[w] & m1[w] & m2[w] & m3[w]; rows != 0 {
				return w, rows
			}
		}
	default:
		m0 := at0(0)
		m1, m2, m3, m4 := at0(1)[:len(m0)], at0(2)[:len(m0)], at0(3)[:len(m0)], at0(4)[:len(m0)]
		// Most of a large table has no row in common: four words at a time
		// take half the branches.
		for ; w+4 <= len(m0); w += 4 {
			a, b, c, d, e := (*[4]uint64)(m0[w:]), (*[4]uint64)(m1[w:]), (*[4]uint64)(m2[w:]), (*[4]uint64)(m3[w:]), (*[4]uint64)(m4[w:])
			if a[0]&b[0]&c[0]&d[0]&e[0]|a[1]&b[1]&c[1]&d[1]&e[1]|a[2]&b[2]&c[2]&d[2]&e[2]|a[3]&b[3]&c[3]&d[3]&e[3] != 0 {
				break
			}
		}
		for ; w < len(m0); w++ {
			rows := m0[w] & m1[w] & m2[w] & m3[w] & m4[w]
			for i := 5; i < n && rows != 0; i++ {
				rows &= x.maps[int(at[i])+w]
			}
			if rows != 0 {
				return w, rows
			}
		}
	}
	return words, 0
}

// evaluateLists is evaluate for tables with columns of lists, of parts and of
// many distinct texts. There a value may have several bitmaps, or a list of
// rows, whose union the columns' AND needs: with tags [a, b], the rows that
// ask for a, for b, or for no tag. Unions are not worked out as a whole but
// word by word, and only for words that the other columns leave.
func (x *index) evaluateLists(t *Table, b *Binding, at *[maxColumns]uint32, n int) Decision {
	var (
		unions   [maxColumns]union
		used     int
		elements [maxElements]uint32
		taken    int
		inexact  bool // bitmaps have more rows than match
		lead     = -1 // a union that is no more than its list of rows
	)
	for i := range x.lists {
		c := &x.lists[i]
		v := &b.values[c.slot]
		if v.state != present || v.long && c.kind == partColumn {
			at[n] = c.start
			n++
			continue
		}
		u := union{base: c.start + uint32(x.words)*otherClass}
		switch c.kind {
		case postingColumn:
			u.rows = c.postings[v.str]
		case partColumn:
			found, all := c.parts.find(v.str, elements[taken:])
			u.elements = elements[taken : taken+found]
			for i, class := range u.elements {
				u.elements[i] = c.start + uint32(x.words)*class
			}
			if taken += found; !all {
				taken, inexact = taken-found, true
				u = union{base: c.start + uint32(x.words)*anyClass}
			}
		default:
			first := taken
			for _, item := range v.list {
				class, ok := c.elements[item]
				if !ok {
					continue
				}
				if taken == maxElements {
					// Too many to add up: test the rows any list could match.
					taken, inexact = first, true
					u.base = c.start + uint32(x.words)*anyClass
					break
				}
				elements[taken] = c.start + uint32(x.words)*class
				taken++
			}
			u.elements = elements[first:taken]
		}
		if len(u.elements) == 0 && len(u.rows) == 0 {
			if c.sparse {
				return Decision{Row: -1, Outcome: -1, Reason: Default}
			}
			at[n] = u.base
			n++
			continue
		}
		if c.sparse {
			lead = used
		}
		unions[used] = u
		used++
	}
	for w := 0; ; w++ {
		if lead >= 0 {
			// Only the rows listed can match: skip to the next one.
			rest := unions[lead].rows
			for len(rest) > 0 && int(rest[0]>>6) < w {
				rest = rest[1:]
			}
			if len(rest) == 0 {
				return Decision{Row: -1, Outcome: -1, Reason: Default}
			}
			w = int(rest[0] >> 6)
			unions[lead].rows = rest
		}
		var rows uint64
		if lead >= 0 {
			// The other words up to the next listed row don't matter.
			rows = x.live[w]
			for i := range n {
				rows &= x.maps[int(at[i])+w]
			}
		} else if w, rows = x.next(at, n, w); rows == 0 {
			return Decision{Row: -1, Outcome: -1, Reason: Default}
		}
		for i := range unions[:used] {
			rows &= unions[i].word(x, w)
		}
		if d, ok := x.decide(t, b, w, rows, inexact); ok {
			return d
		}
	}
}

// union is the rows that a column finds: those of the bound value, as bitmaps
// or as a list of rows, and those of base, which match any value.
type union struct {
	base     uint32
	elements []uint32
	rows     []int32
}

// word returns the word w of the union. Words are asked for in ascending order.
func (u *union) word(x *index, w int) uint64 {
	rows := x.maps[int(u.base)+w]
	for _, at := range u.elements {
		rows |= x.maps[int(at)+w]
	}
	for len(u.rows) > 0 && int(u.rows[0]>>6) <= w {
		if int(u.rows[0]>>6) == w {
			rows |= 1 << (u.rows[0] & 63)
		}
		u.rows = u.rows[1:]
	}
	return rows
}
