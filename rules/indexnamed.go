package rules

import "slices"

// maxNamed is how many rows namedRows try for a text at most.
const maxNamed = 256

// namedRows find the rows of a table by the text of one field, for a list of so many
// customers that an index with a bitmap for each would be too large. The rows that
// name the text and the rows that name none are tried one by one. For example,
//
//	row 0: { customer: c1, plan: pro }
//	row 1: { customer: [c2, c3] }
//	row 2: { plan: free }
//
// has the rows c1: {0}, c2: {1} and c3: {1}, and {2} in others.
type namedRows struct {
	slot    int32
	rows    map[string][]int32
	missing []int32 // the rows that name texts and match a missing value, too
	others  []int32 // the rows that name none
}

// newNamedRows returns the rows by the texts of the field with most, or nil if the
// bitmaps of an index take no more bytes than budget, or too many rows would have to
// be tried.
func newNamedRows(t *Table, budget int) *namedRows {
	bitmap := (len(t.rows) + 63) / 64 * 8
	texts := make([]int, t.model.nowSlot()+1)
	for i := range t.atoms {
		if a := &t.atoms[i]; a.names() {
			texts[a.slot] += len(a.literals())
		}
	}
	most := slices.Max(texts)
	if most*bitmap <= budget {
		return nil
	}
	n := &namedRows{slot: int32(slices.Index(texts, most)), rows: make(map[string][]int32)}
	longest := 0
	for row := range t.rows {
		atoms := t.rowAtoms(row)
		i := slices.IndexFunc(atoms, func(a atom) bool { return a.slot == n.slot && a.names() })
		if i < 0 {
			n.others = append(n.others, int32(row))
			continue
		}
		for _, text := range atoms[i].literals() {
			n.rows[text] = append(n.rows[text], int32(row))
			longest = max(longest, len(n.rows[text]))
		}
		if atoms[i].onMissing {
			n.missing = append(n.missing, int32(row))
		}
	}
	if len(n.rows)*bitmap <= budget || max(longest, len(n.missing))+len(n.others) > maxNamed {
		return nil
	}
	return n
}

// names reports whether a value must be one of some texts to meet the atom.
func (a *atom) names() bool { return a.op == atomEqual || a.op == atomIn }

// evaluate finds the first row that matches.
func (n *namedRows) evaluate(t *Table, b *Binding) Decision {
	others, named := n.others, n.missing
	if v := &b.values[n.slot]; v.state == present {
		named = n.rows[v.str]
	}
	for len(others)+len(named) > 0 {
		next := &others
		if len(others) == 0 || len(named) > 0 && named[0] < others[0] {
			next = &named
		}
		row := int((*next)[0])
		*next = (*next)[1:]
		if !matchAll(t.rowAtoms(row), b) {
			continue
		}
		if d, ok := t.decide(row, b); ok {
			return d
		}
	}
	return Decision{Row: -1, Outcome: -1, Reason: Default}
}
