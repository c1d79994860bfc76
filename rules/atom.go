package rules

// atomOp is how an atom tests its slot's value.
type atomOp uint8

const (
	atomNever atomOp = iota
	atomAlways
	atomSpan   // the integer key is in span
	atomEqual  // the string key is text
	atomIn     // the string key is one of texts
	atomNotIn  // the string key is none of texts
	atomPred   // pred
	atomEither // one of either holds
	atomConfig // another table answers with an accepted outcome
)

// maxScanned is the number of texts up to which comparing one by one is faster
// than hashing.
const maxScanned = 8

// atom is a condition on one slot: the cell of a row, in the form that is
// tested fastest. The members of rarer kinds are behind a pointer to keep the
// atoms of a small table within a few cache lines.
type atom struct {
	op        atomOp
	onMissing bool // whether a missing value matches
	slot      int32
	span      span[int64]
	text      string
	more      *atomMore
}

type atomMore struct {
	texts  []string            // sorted
	lookup map[string]struct{} // the same, when they are many
	pred   *pred
	// pattern is set where pred has a pattern, for which a long value counts
	// as missing.
	pattern bool
	either  []atom
	config  *Prerequisite
}

// newAtom finds the form for a predicate.
func newAtom(slot int32, onMissing bool, p *pred) atom {
	a := atom{slot: slot, onMissing: onMissing, op: atomPred}
	switch p.op {
	case never:
		a.op = atomNever
	case always:
		a.op = atomAlways
	case inInts:
		if len(p.ints) == 1 {
			a.op, a.span = atomSpan, p.ints[0]
			return a
		}
	case inStrs:
		if texts, ok := points(p.strs); ok {
			return a.withTexts(atomIn, texts)
		}
		if texts, ok := points(strDomain.complement(p.strs)); ok {
			return a.withTexts(atomNotIn, texts)
		}
	}
	a.more = &atomMore{pred: p, pattern: p.hasPattern()}
	return a
}

func (a atom) withTexts(op atomOp, texts []string) atom {
	if op == atomIn && len(texts) == 1 {
		a.op, a.text = atomEqual, texts[0]
		return a
	}
	a.op, a.more = op, &atomMore{texts: texts}
	if len(texts) > maxScanned {
		a.more.lookup = make(map[string]struct{}, len(texts))
		for _, t := range texts {
			a.more.lookup[t] = struct{}{}
		}
	}
	return a
}

// condOf returns the condition of an atom on a field or on the time: newAtom back.
func condOf(a *atom) cond {
	c := cond{onMissing: a.onMissing, pred: neverPred}
	switch a.op {
	case atomAlways:
		c.pred = alwaysPred
	case atomSpan:
		c.pred = intPred(intSet{a.span})
	case atomEqual:
		c.pred = strPred(strSet{point(a.text)})
	case atomIn, atomNotIn:
		s := make(strSet, len(a.more.texts))
		for i, t := range a.more.texts {
			s[i] = point(t)
		}
		if c.pred = strPred(strDomain.normalize(s)); a.op == atomNotIn {
			c.pred = notPred(c.pred)
		}
	case atomPred:
		c.pred = a.more.pred
	}
	return c
}

// points returns the strings of a set, when it has finitely many.
func points(s strSet) ([]string, bool) {
	texts := make([]string, len(s))
	for i, sp := range s {
		if !isPoint(sp) {
			return nil, false
		}
		texts[i] = sp.lo
	}
	return texts, true
}

// match reports whether the binding meets the atom. Slots that are worked out on
// demand must be resolved before.
func (a *atom) match(b *Binding) bool {
	v := &b.values[a.slot]
	if v.state != present {
		return a.onMissing
	}
	switch a.op {
	case atomSpan:
		return a.span.lo <= v.key && v.key < a.span.hi
	case atomEqual:
		return v.str == a.text
	case atomIn:
		return a.more.has(v.str)
	case atomNotIn:
		return !a.more.has(v.str)
	case atomPred:
		if v.long && a.more.pattern {
			return a.onMissing
		}
		return a.more.pred.match(v)
	case atomAlways:
		return true
	case atomEither:
		for i := range a.more.either {
			if a.more.either[i].match(b) {
				return true
			}
		}
	case atomConfig:
		return a.more.config.holds(b)
	}
	return false
}

// has reports whether s is one of the texts.
func (m *atomMore) has(s string) bool {
	if m.lookup != nil {
		_, ok := m.lookup[s]
		return ok
	}
	for _, t := range m.texts {
		if t == s {
			return true
		}
	}
	return false
}

// matchAll reports whether every atom matches.
func matchAll(atoms []atom, b *Binding) bool {
	for i := range atoms {
		if !atoms[i].match(b) {
			return false
		}
	}
	return true
}
