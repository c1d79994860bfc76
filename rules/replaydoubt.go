package rules

// Doubt is a cell of which it is not known whether it matched.
type Doubt struct {
	Row    string // its id
	Field  string // the column: a field, segment, config, split or ramp
	Cell   string // as it was written
	Unseen string // the declared field whose value is not known
	Reason string // why it is not known
	Remedy string // a sentence: how later traces can be proved; of a Transfer the setting, or empty
}

// String describes the cell in doubt, and the reason.
func (d *Doubt) String() string {
	s := d.Row + ": " + d.Field + " must be " + d.Cell
	if d.Unseen == d.Field {
		return s + ", and its value is " + d.Reason
	}
	return s + ", and the value of " + d.Unseen + " is " + d.Reason
}

// Doubt returns what is in doubt of a decision that is possible, or nil for one that comes
// if no other does.
func (r *Replay) Doubt(t *Table, possible int) *Doubt {
	at := r.Table(t).doubtful[possible]
	if at.row < 0 {
		return nil
	}
	d := &Doubt{Row: t.rows[at.row].ID}
	if at.cell >= 0 {
		ref := t.rowCells(at.row)[at.cell]
		d.Field, d.Cell = ref.name, CellText(ref.node)
		r.blame(d, &t.rowAtoms(at.row)[at.cell])
	} else if s := t.answers[at.row].split; s != nil {
		d.Field, d.Cell = s.kind(), CellText(s.node)
		slot := s.by
		if r.isShareUnknown(s) {
			slot = s.rollout
		}
		r.blameSlot(d, slot)
	}
	if d.Reason == "" || r.transfer != nil && d.Reason == isKnown.reason() {
		return nil
	}
	return d
}

// firstDoubt returns the first doubt of a table's decision, or nil.
func (r *Replay) firstDoubt(t *Table) *Doubt {
	if len(r.Table(t).Possible) == 1 {
		return nil
	}
	return r.Doubt(t, 0)
}

// blame is blameSlot for a condition that is in doubt.
func (r *Replay) blame(d *Doubt, a *atom) {
	switch {
	case a.op == atomEither:
		for i := range a.more.either {
			if r.atom(&a.more.either[i]) == maybe {
				r.blame(d, &a.more.either[i])
				return
			}
		}
	case a.op == atomConfig:
		if other := r.firstDoubt(a.more.config.Table); other != nil {
			d.Unseen, d.Reason, d.Remedy = other.Unseen, other.Reason, other.Remedy
			return
		}
	case r.b.model.isSegment(a.slot):
		for _, row := range r.b.model.segments[int(a.slot)-len(r.b.model.fields)].rows {
			if matched, at := r.cells(row); matched == maybe {
				r.blame(d, &row[at])
				return
			}
		}
	}
	r.blameSlot(d, a.slot)
}

// blameSlot says in the doubt which declared field behind a slot is not known, why,
// and the setting that would make it known.
func (r *Replay) blameSlot(d *Doubt, slot int32) {
	m := r.b.model
	d.Unseen, d.Reason = m.slotName(slot), isKnown.reason()
	for _, read := range m.readsOf(slot) {
		f, known := &m.fields[read], r.known[read]
		if known == isKnown {
			continue
		}
		d.Unseen, d.Reason = f.name, known.reason()
		if r.transfer != nil {
			d.Remedy = r.transfer.remedy(f, known)
			return
		}
		switch {
		case known == isRedacted:
			d.Remedy = "It can't be proved as long as such values are redacted"
		case known == isHashed && f.trace == traceValue:
			d.Reason += ", because it is long"
			fallthrough
		case known == isUncalled || known == isChanged:
			d.Remedy = "It can be proved of later traces with log: content"
		default:
			d.Remedy = "It can be proved of later traces with trace: value for " + f.name + " in context.yaml, or with log: content"
		}
		return
	}
}
