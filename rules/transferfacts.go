package rules

import "slices"

// fact is what a record says of a value that it has as a hash.
type fact struct {
	a     *atom
	pred  *pred
	holds bool
}

// SetDecided says that a table of the old model was answered by a row, or by its default
// for -1. Rows that were not tried say nothing, as then no value is recorded as a hash.
func (r *Replay) SetDecided(t *Table, row int) {
	if !slices.Contains(r.known, isHashed) {
		return
	}
	for i := range t.rows {
		atoms := t.rowAtoms(i)
		if i == row {
			for j := range atoms {
				r.learn(&atoms[j], true)
			}
			return
		}
		if t.answers[i].split != nil {
			continue // it may have passed a unit on
		}
		failed, doubtful := -1, 0
		for j := range atoms {
			found := maybe
			if a := r.transfer.moved(&atoms[j]); a != nil {
				found = r.atom(a)
			}
			if found == no {
				doubtful = 2
				break
			} else if found == maybe {
				failed, doubtful = j, doubtful+1
			}
		}
		if doubtful == 1 {
			r.learn(&atoms[failed], false)
		}
	}
}

// moved returns a condition of the old model in the next one, or nil if it may mean
// something else there.
func (tr *Transfer) moved(a *atom) *atom {
	if moved, ok := tr.atoms[a]; ok {
		return moved
	}
	moved := *a
	switch {
	case a.slot == tr.old.nowSlot() && a.op != atomConfig && a.op != atomEither:
		moved.slot = tr.next.nowSlot()
	case a.op == atomConfig || a.op == atomEither || int(a.slot) >= tr.old.declared || !tr.carried[a.slot].alike:
		tr.atoms[a] = nil
		return nil
	default:
		moved.slot = tr.carried[a.slot].to
	}
	tr.atoms[a] = &moved
	return &moved
}

// predOf returns the predicate of a condition of a table, made once.
func (tr *Transfer) predOf(a *atom) *pred {
	p := tr.preds[a]
	if p == nil {
		p = condOf(a).pred
		tr.preds[a] = p
	}
	return p
}

// learn keeps what a condition says of a value that was recorded as a hash.
func (r *Replay) learn(a *atom, holds bool) {
	moved := r.transfer.moved(a)
	if moved != nil && int(moved.slot) < r.b.model.declared && r.known[moved.slot] == isHashed {
		r.facts = append(r.facts, fact{moved, r.transfer.predOf(moved), holds})
	}
}

// told evaluates a condition on a value that was recorded as a hash.
func (r *Replay) told(a *atom) truth {
	listed := r.transfer.literals[a.slot] != nil
	if !listed && !slices.ContainsFunc(r.facts, func(f fact) bool { return f.a.slot == a.slot }) {
		return maybe
	}
	p := r.transfer.predOf(a)
	for i := range r.facts {
		if f := &r.facts[i]; f.a.slot == a.slot && f.a.onMissing == a.onMissing && samePred(f.pred, p) {
			return truthOf(f.holds)
		}
	}
	found := r.toldPred(a.slot, p, listed)
	if p.hasPattern() && found != truthOf(a.onMissing) {
		return maybe // a long value counts as missing
	}
	return found
}

func (r *Replay) toldPred(slot int32, p *pred, listed bool) truth {
	switch p.op {
	case never:
		return no
	case always:
		return yes
	case inInts:
		return toldSet(r, slot, p.ints, intDomain, listed, func(p *pred) intSet { return p.ints }, func(s span[int64]) bool { return s.hi == s.lo+1 })
	case inStrs:
		return toldSet(r, slot, p.strs, strDomain, listed, func(p *pred) strSet { return p.strs }, isPoint)
	case allOf:
		found := yes
		for _, arg := range p.args {
			found = min(found, r.toldPred(slot, arg, listed))
		}
		return found
	case oneOf:
		found := no
		for _, arg := range p.args {
			found = max(found, r.toldPred(slot, arg, listed))
		}
		return found
	case negation:
		return yes - r.toldPred(slot, p.args[0], listed)
	}
	return maybe
}

// toldSet reports whether the facts place a value in a set. A listed value is none of the
// points of a set, or of what is outside of it: these were compared.
func toldSet[K int64 | string](r *Replay, slot int32, s set[K], d domain[K], listed bool, of func(*pred) set[K], isPoint func(span[K]) bool) truth {
	inside, outside := slices.Clone(s), d.complement(s)
	if listed {
		inside, outside = slices.DeleteFunc(inside, isPoint), slices.DeleteFunc(outside, isPoint)
	}
	for i := range r.facts {
		f := &r.facts[i]
		within := of(f.pred)
		if f.a.slot != slot || within == nil {
			continue
		}
		if !f.holds {
			within = d.complement(within)
		}
		inside, outside = d.intersect(inside, within), d.intersect(outside, within)
	}
	switch {
	case len(inside) == 0:
		return no
	case len(outside) == 0:
		return yes
	}
	return maybe
}

// samePred reports whether two predicates are written alike.
func samePred(p, q *pred) bool {
	return p == q || p.op == q.op && p.text == q.text && slices.Equal(p.ints, q.ints) && slices.Equal(p.strs, q.strs) &&
		(p.re == nil) == (q.re == nil) && (p.re == nil || p.re.String() == q.re.String()) && slices.EqualFunc(p.args, q.args, samePred)
}
