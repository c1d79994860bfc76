package rules

import (
	"strconv"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// column decodes a cell under a name (a field, segment or config) and appends
// its atoms: none for any.
func (r *cellReader) column(atoms []atom, name, n *document.Node) []atom {
	switch name.Text {
	case segmentColumn:
		return append(atoms, r.segments(n)...)
	case configColumn:
		return append(atoms, r.configs(n)...)
	}
	slot, ok := r.m.lookupField(name, []string{segmentColumn, configColumn}, r.errs)
	if !ok {
		return atoms
	}
	return r.fieldAtom(atoms, slot, n)
}

// fieldAtom decodes a cell on a field. The columns of a matrix repeat a few
// cells over and over, which are decoded once and shared.
func (r *cellReader) fieldAtom(atoms []atom, slot int32, n *document.Node) []atom {
	if r.m.fields[slot].broken {
		return atoms
	}
	key, cacheable := appendCellKey(append(r.buf[:0], byte(slot>>8), byte(slot)), n)
	r.buf = key
	if cacheable {
		if a, ok := r.known[string(key)]; ok {
			return appendCond(atoms, a)
		}
	}
	mistakes := r.errs.Len()
	c := r.cell(&r.m.fields[slot], n, false)
	if r.errs.Len() > mistakes {
		return atoms
	}
	if !c.onMissing && c.pred.op == never {
		r.errs.Add(n, "%s never matches", CellText(n))
		return atoms
	}
	a := newAtom(slot, c.onMissing, c.pred)
	if cacheable {
		if r.known == nil {
			r.known = make(map[string]atom)
		}
		r.known[string(key)] = a
	}
	return appendCond(atoms, a)
}

// appendCond appends an atom unless it always matches.
func appendCond(atoms []atom, a atom) []atom {
	if a.op == atomAlways && a.onMissing {
		return atoms
	}
	return append(atoms, a)
}

// appendCellKey appends a key that only equal cells of a column share. It
// reports whether the cell is small enough to be remembered by it.
func appendCellKey(dst []byte, n *document.Node) ([]byte, bool) {
	const longest = 256
	switch {
	case n.Shape == document.Scalar:
		quotes := byte('p')
		if n.Quoted && !n.JSON {
			quotes = 'q'
		}
		dst = append(append(dst, quotes), n.Text...)
		return append(dst, 0), len(dst) < longest
	case n.Shape == document.Sequence && len(n.Items) <= 8:
		dst = append(dst, '[')
		for _, item := range n.Items {
			var ok bool
			if dst, ok = appendCellKey(dst, item); !ok {
				return dst, false
			}
		}
		return append(dst, ']'), true
	}
	return dst, false
}

// segments decodes a cell that names segments: a name, not a name, a list of
// which one must match, or a mapping of any, all and none.
func (r *cellReader) segments(n *document.Node) []atom {
	switch n.Shape {
	case document.Sequence:
		return r.segmentList(n, false, false)
	case document.Mapping:
		n.CheckMembers(r.errs, "a cell", "any", "all", "none", notWord)
		if len(n.Members) == 0 {
			r.errs.Add(n, "an empty mapping is not a condition: write any for no condition")
		}
		var atoms []atom
		for _, m := range n.Members {
			switch m.Key.Text {
			case "any":
				atoms = append(atoms, r.segmentList(m.Value, false, false)...)
			case "all":
				atoms = append(atoms, r.segmentList(m.Value, true, false)...)
			case "none", notWord:
				atoms = append(atoms, r.segmentList(m.Value, false, true)...)
			}
		}
		return atoms
	}
	if n.IsNull() || n.Text == anyWord || n.Text == "*" {
		return nil
	}
	if a, ok := r.segmentNamed(n, false); ok {
		return []atom{a}
	}
	return nil
}

// segmentList decodes names of segments of which all or one must match.
func (r *cellReader) segmentList(n *document.Node, all, negate bool) []atom {
	items := n.Items
	if n.Shape != document.Sequence {
		items = []*document.Node{n}
	}
	if len(items) == 0 {
		r.errs.Add(n, "an empty list of segments never matches: write any for no condition")
	}
	var atoms []atom
	for _, item := range items {
		if a, ok := r.segmentNamed(item, negate); ok {
			atoms = append(atoms, a)
		}
	}
	if all != negate || len(atoms) < 2 {
		return atoms
	}
	return []atom{{op: atomEither, slot: r.m.nowSlot(), more: &atomMore{either: atoms}}}
}

// segmentNamed decodes the name of a segment, or not and a name.
func (r *cellReader) segmentNamed(n *document.Node, negate bool) (atom, bool) {
	name, ok := n.ReadString(r.errs, "the name of a segment")
	if !ok {
		return atom{}, false
	}
	for {
		rest, cut := cutNot(name)
		if !cut {
			break
		}
		name, negate = rest, !negate
	}
	slot, ok := r.m.segmentOf[name]
	if !ok {
		hint := document.DidYouMean(name, r.m.SegmentNames())
		if len(r.m.segments) == 0 {
			hint = ": the data model (context.yaml) declares none"
		}
		r.errs.Report("unknown-segment", n.Pos, "unknown segment %s%s", strconv.Quote(shorten(name)), hint)
		return atom{}, false
	}
	want := span[int64]{1, 2}
	if negate {
		want = span[int64]{0, 1}
	}
	return atom{op: atomSpan, slot: slot, span: want}, true
}
