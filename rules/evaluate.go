package rules

// Evaluate finds the first row that meets the binding. A binding to another
// model than the table's counts as no context, with which only a table that reads a
// field of the gateway is tried. Evaluate does not allocate,
// except where the first table of a request to read a computed field evaluates
// its expression.
func (t *Table) Evaluate(b *Binding) Decision {
	if !t.tries(b) {
		return Decision{Row: -1, Outcome: -1, Reason: NoContext}
	}
	for _, slot := range t.lazy {
		b.resolve(slot)
	}
	for _, slot := range t.patterned {
		if b.values[slot].long {
			b.noteLong(slot)
		}
	}
	switch {
	case t.index != nil:
		return t.index.evaluate(t, b)
	case t.named != nil:
		return t.named.evaluate(t, b)
	}
	start := int32(0)
rows:
	for row, end := range t.ends {
		atoms := t.atoms[start:end]
		start = end
		for i := range atoms {
			a := &atoms[i]
			v := &b.values[a.slot]
			// The frequent kinds are tested in place, because a call for each
			// cell would be most of the work.
			switch {
			case v.state != present:
				if !a.onMissing {
					continue rows
				}
			case a.op == atomSpan:
				if v.key < a.span.lo || v.key >= a.span.hi {
					continue rows
				}
			case a.op == atomEqual:
				if v.str != a.text {
					continue rows
				}
			default:
				if !a.match(b) {
					continue rows
				}
			}
		}
		if d, ok := t.decide(row, b); ok {
			return d
		}
	}
	return Decision{Row: -1, Outcome: -1, Reason: Default}
}

// decide returns the decision of a row whose conditions are met, or false when
// its split leaves the unit to the rows below.
func (t *Table) decide(row int, b *Binding) (Decision, bool) {
	ans := &t.answers[row]
	if ans.split == nil {
		return Decision{Row: row, Outcome: ans.outcome, Reason: Match}, true
	}
	outcome, ok := ans.split.choose(b)
	if b.trail != nil {
		b.trail.consult(t, row, b)
	}
	return Decision{Row: row, Outcome: outcome, Reason: Split}, ok
}
