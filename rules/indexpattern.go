package rules

import "slices"

// maxEnd is how many bytes a text may have to be looked up by its end.
const maxEnd = 64

// isEnds reports whether a cell belongs into a column of ends.
func isEnds(a *atom) bool {
	if a.op != atomPred || !a.more.pred.has(suffix) {
		return false
	}
	_, ok := endsOf(a)
	return ok
}

// has reports whether the predicate has a test of a kind.
func (p *pred) has(op predOp) bool {
	return p.op == op || slices.ContainsFunc(p.args, func(arg *pred) bool { return arg.has(op) })
}

// endsOf returns the set of string keys that a cell matches, read backwards. An
// end is a beginning there, and texts with a common beginning are a span: "*.com"
// becomes the texts from "moc." up to "moc/".
func endsOf(a *atom) (strSet, bool) {
	if a.op != atomPred {
		return nil, false
	}
	return a.more.pred.backwards()
}

func (p *pred) backwards() (strSet, bool) {
	switch p.op {
	case never:
		return nil, true
	case always:
		return strDomain.all(), true
	case suffix:
		return strSet{startingWith(reversed(p.text))}, len(p.text) <= maxEnd
	case inStrs:
		if s, ok := reversedPoints(p.strs); ok {
			return s, true
		}
		s, ok := reversedPoints(strDomain.complement(p.strs))
		return strDomain.complement(s), ok
	case negation:
		s, ok := p.args[0].backwards()
		return strDomain.complement(s), ok
	case oneOf, allOf:
		all, ok := p.args[0].backwards()
		for _, arg := range p.args[1:] {
			s, fits := arg.backwards()
			ok = ok && fits
			if p.op == oneOf {
				all = strDomain.union(all, s)
			} else {
				all = strDomain.intersect(all, s)
			}
		}
		return all, ok
	}
	return nil, false
}

// reversedPoints returns the strings of a finite set, read backwards.
func reversedPoints(s strSet) (strSet, bool) {
	texts, ok := points(s)
	if !ok {
		return nil, false
	}
	out := make(strSet, len(texts))
	for i, t := range texts {
		if len(t) > maxEnd {
			return nil, false
		}
		out[i] = point(reversed(t))
	}
	return strDomain.normalize(out), true
}

// reversed returns a text with its bytes in the opposite order.
func reversed(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// isParts reports whether a cell belongs into a column of parts.
func isParts(a *atom) bool { return partsOf(a) != nil }

// partsOf returns the parts of which a text must have one to match a cell; nil
// for a cell that asks for anything else.
func partsOf(a *atom) []string {
	if a.op != atomPred {
		return nil
	}
	switch p := a.more.pred; p.op {
	case contains:
		return []string{p.text}
	case oneOf:
		texts := make([]string, len(p.args))
		for i, arg := range p.args {
			if arg.op != contains {
				return nil
			}
			texts[i] = arg.text
		}
		return texts
	}
	return nil
}

// buildParts makes the bitmaps of a column of parts, as buildElements does of
// lists: the elements of a text are the parts found in it.
func (b *columnBuilder) buildParts() {
	b.buildMembers(partsOf)
	b.parts.name(b.literals)
}

// partFinder finds all parts that a text contains in one pass over it (Aho and
// Corasick's automaton, with all its transitions in a table).
//
// A state is the longest end of what was read that begins a part. For the parts
// ab, b and bc the states are
//
//	0: ""   1: "a"   2: "ab"   3: "b"   4: "bc"
//
// Reading "xabc" visits 0, 1, 2, 4: x begins nothing; after ab no part goes on
// with c, but its end b does, so that c leads from 2 to 4. The state 2 has
// the part ab, and behind it, in more, the part b of its end; 4 has bc. So the
// pass finds ab, b and bc.
type partFinder struct {
	kinds [256]uint8 // of bytes; those that occur in no part are of kind 0
	width int        // kinds of bytes
	next  []uint16   // by state and kind
	// hit is, by state, the state of the longest part that ends here: the state
	// itself, or that of an end of its text. 0 is none.
	hit []uint16
	// more is, by state with a part, the state of the next shorter part that
	// ends here, 0 for none.
	more  []uint16
	text  []string // by state, the part that it is the end of
	class []uint32 // by state, that part's class
}

// newPartFinder makes the automaton for the parts of some cells, or nil where
// its table would take more than so many bytes.
func newPartFinder(entries []entry, budget int) *partFinder {
	f := &partFinder{width: 1}
	var parts []string
	for _, e := range entries {
		for _, part := range partsOf(e.atom) {
			parts = append(parts, part)
			for i := range len(part) {
				if k := &f.kinds[part[i]]; *k == 0 && f.width < 256 {
					*k = uint8(f.width)
					f.width++
				}
			}
		}
	}
	if f.width == 256 {
		return nil // each byte would need a kind, and 0 has none
	}
	most := min(1<<16, budget/(2*f.width)) // states
	grow := func() uint16 {
		f.next = append(f.next, make([]uint16, f.width)...)
		f.text = append(f.text, "")
		return uint16(len(f.text) - 1)
	}
	grow()
	for _, part := range parts {
		state := uint16(0)
		for i := range len(part) {
			at := int(state)*f.width + int(f.kinds[part[i]])
			if f.next[at] == 0 {
				if len(f.text) >= most {
					return nil
				}
				state := grow() // which may move next
				f.next[at] = state
			}
			state = f.next[at]
		}
		f.text[state] = part
	}
	f.link()
	return f
}

// link adds the transitions from each state for the bytes that do not continue
// its part: they are those of fail, the state of the longest end of its text.
// States are visited by depth, so that those of fail are known.
func (f *partFinder) link() {
	n := len(f.text)
	f.hit, f.more = make([]uint16, n), make([]uint16, n)
	fail := make([]uint16, n)
	queue := make([]uint16, 0, n)
	for _, state := range f.next[:f.width] {
		if state != 0 {
			queue = append(queue, state)
		}
	}
	for i := 0; i < len(queue); i++ {
		state := queue[i]
		f.hit[state], f.more[state] = f.hit[fail[state]], f.hit[fail[state]]
		if f.text[state] != "" {
			f.hit[state] = state
		}
		row, back := f.next[int(state)*f.width:][:f.width], f.next[int(fail[state])*f.width:][:f.width]
		for kind, to := range row {
			if to == 0 {
				row[kind] = back[kind]
				continue
			}
			fail[to] = back[kind]
			queue = append(queue, to)
		}
	}
}

// name gives the parts their classes.
func (f *partFinder) name(classes map[string]uint32) {
	f.class = make([]uint32, len(f.text))
	for state, part := range f.text {
		f.class[state] = classes[part]
	}
	f.text = nil
}

// find puts the classes of the parts that a text contains into found, each
// once. all is false when found is too short for them.
func (f *partFinder) find(s string, found []uint32) (n int, all bool) {
	state := uint16(0)
	for i := range len(s) {
		state = f.next[int(state)*f.width+int(f.kinds[s[i]])]
	hits:
		for at := f.hit[state]; at != 0; at = f.more[at] {
			class := f.class[at]
			for _, other := range found[:n] {
				if other == class {
					continue hits
				}
			}
			if n == len(found) {
				return n, false
			}
			found[n] = class
			n++
		}
	}
	return n, true
}
