package rules

import (
	"fmt"
	"math/bits"
	"time"
)

// overlaps finds pairs of rows with different values that match the same.
func (z *analyser) overlaps() {
	t := z.t
	n := 0
	for row := range t.rows {
		if z.past[row] {
			continue
		}
		both := z.above(row)
		for i := range z.axes {
			union := make([]uint64, len(both))
			for j := range z.axes[i].classes {
				c := &z.axes[i].classes[j]
				if !has(c.may, row) {
					continue
				}
				for w := range union {
					union[w] |= c.may[w]
				}
			}
			for w := range both {
				both[w] &= union[w]
			}
			z.left -= len(z.axes[i].classes) * (1 + len(both)/64)
		}
		for w, word := range both {
			for ; word != 0; word &= word - 1 {
				other := w<<6 + bits.TrailingZeros64(word)
				if other == row || z.past[other] || z.equal(row, other) {
					continue
				}
				if z.left < 0 {
					z.found(Finding{Kind: Undecided, Row: row, Other: other, Pos: t.rows[row].Pos,
						Message: "not decided whether rows from " + t.rows[row].ID + " on overlap: the work bound is exhausted"})
					return
				}
				if f, ok := z.overlap(other, row); ok {
					z.found(f)
					if n++; n >= maxFindings {
						return
					}
				}
			}
		}
	}
}

// above are the rows above a row.
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

// equal tells whether two rows always answer the same.
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

// outcomes are all outcomes of a row.
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

// overlap looks for a context that two rows match.
func (z *analyser) overlap(a, b int) (Finding, bool) {
	t := z.t
	f := Finding{Kind: Overlap, Row: b, Other: a, Pos: t.rows[b].Pos,
		Message: fmt.Sprintf("%s and %s match the same context with different values", t.rows[a].ID, t.rows[b].ID)}
	z.examples(func(c *class) bool { return has(c.may, a) && has(c.may, b) }, func(context string, at time.Time, binding *Binding) bool {
		if matchAll(t.rowAtoms(a), binding) && matchAll(t.rowAtoms(b), binding) {
			f.Witness, f.At = context, at
		}
		return f.Witness != ""
	})
	return f, f.Witness != ""
}
