package rules

import (
	"bytes"
	"math"
	"slices"

	"github.com/valyala/fastjson"
)

// Transfer replays decisions of one data model's tables on the tables of another: what
// these would have answered. What the first left in its traces is known to the second
// as far as both declare a field alike, however they record it:
//
//   - a value that a table read is bound anew, and a field that one read and is not there
//     was missing;
//   - a hash is compared with those of the values that tables name. It is one of these, or
//     another one, which decides equality and no range;
//   - what the recorded row says of a hashed value holds: that of a row that answered
//     matched, and where all but one cell of a row above match, that one does not;
//   - the bucket of a split is that of all splits with its key, salt and unit.
//
// A Transfer is not safe for concurrent use.
type Transfer struct {
	old, next *Model
	carried   []carried // by slot of old
	hash      HashFunc
	literals  []map[string]value // by slot of next and hash; nil: a field whose values are not compared
	refusal   string             // of Refuses
	atoms     map[*atom]*atom    // of moved
	preds     map[*atom]*pred    // of predOf
	replay    Replay             // reused
	scratch   []byte
}

// carried says what a field of the old model says of one of the next.
type carried struct {
	to int32 // its slot in the next model; -1: it has none
	// value reports whether a recorded value is what the next model is sent, missing whether
	// one without a value has none in the next model, and alike whether all values are the
	// same in both.
	value, missing, alike bool
}

// unitBucket is the bucket of a unit under a salt.
type unitBucket struct {
	by        int32
	key, salt string
	bucket    uint32
}

// NewTransfer prepares replays on tables of next by traces of tables of old. hash is the
// one that made the hashes in the traces, or nil: then a hash may be of any value. tables are
// of either model; hashes are compared with the values that their cells name.
func NewTransfer(old, next *Model, tables []*Table, hash HashFunc) *Transfer {
	tr := &Transfer{old: old, next: next, hash: hash, carried: make([]carried, len(old.fields)), literals: make([]map[string]value, len(next.fields)),
		atoms: make(map[*atom]*atom), preds: make(map[*atom]*pred)}
	for i := range old.fields {
		tr.carried[i] = tr.carry(int32(i))
	}
	tr.refusal = tr.refuses()
	if hash != nil {
		for _, m := range []*Model{old, next} {
			for i := range m.segments {
				for _, row := range m.segments[i].rows {
					tr.collect(m, row)
				}
			}
		}
		for _, t := range tables {
			tr.collect(t.model, t.atoms)
		}
		for i := range next.fields[:next.declared] {
			f := &next.fields[i]
			for key := range f.texts {
				tr.literal(int32(i), textValue(key))
			}
			for key := range f.numbers {
				tr.literal(int32(i), value{state: present, key: key})
			}
			if f.typ == booleanField {
				tr.literal(int32(i), value{state: present})
				tr.literal(int32(i), value{state: present, key: 1})
			}
		}
	}
	return tr
}

// Alike reports whether the fields that a table of the next model reads are those of the
// old one, and no context is refused that the old one took.
func (tr *Transfer) Alike(t *Table) bool {
	for _, slot := range t.reads {
		if !slices.ContainsFunc(tr.carried, func(c carried) bool { return c.to == slot && c.alike }) {
			return false
		}
	}
	return tr.refusal == ""
}

// Refuses returns what of the next model may refuse contexts that the old one took: an
// option or a field. It is empty if it refuses none.
func (tr *Transfer) Refuses() string { return tr.refusal }

func (tr *Transfer) refuses() string {
	old, next := tr.old, tr.next
	rejects := next.onUnknown == rejectPolicy
	if rejects && old.onUnknown != rejectPolicy {
		return "on_unknown_field"
	}
	if next.strict && !old.strict {
		return "on_type_mismatch"
	}
	for i := range old.fields[:old.sent] {
		c, f := tr.carried[i], &old.fields[i]
		if rejects && c.to < 0 || next.strict && c.to >= 0 && (!c.alike || next.fields[c.to].required && !f.required) {
			return f.name
		}
	}
	for i := range next.fields[:next.sent] {
		if _, known := old.slots[next.fields[i].name]; next.strict && !known {
			return next.fields[i].name
		}
	}
	return ""
}

// carry compares the declarations of a field. Of computed ones, those alike have one
// expression of declared fields that are alike.
func (tr *Transfer) carry(slot int32) carried {
	f := &tr.old.fields[slot]
	to, ok := tr.next.slots[f.name]
	if !ok {
		return carried{to: -1}
	}
	g := &tr.next.fields[to]
	c := carried{to: to}
	allows := f.min == g.min && f.max == g.max && sameKeys(f.texts, g.texts) && sameKeys(f.numbers, g.numbers) && f.foldCase == g.foldCase
	if f.program != nil || g.program != nil {
		c.alike = f.typ == g.typ && f.format == g.format && allows && CellText(f.node) == CellText(g.node) && len(f.uses)+len(g.uses) == 0 &&
			!slices.ContainsFunc(f.reads, func(read int32) bool { return !tr.carried[read].alike }) // these come before
		return c
	}
	if f.typ != g.typ || f.format != g.format || f.coerce != g.coerce || !slices.Equal(f.members(), g.members()) || (f.gateway == nil) != (g.gateway == nil) ||
		(tr.old.targeting == slot+1) != (tr.next.targeting == to+1) || f.typ == dateField && tr.old.location.String() != tr.next.location.String() {
		return c
	}
	open := f.allowed == nil && math.IsInf(f.min, -1) && math.IsInf(f.max, 1)
	c.alike = allows
	c.value = allows || f.typ != listField
	c.missing = allows || open && f.typ != listField
	return c
}

func sameKeys[K comparable](a, b map[K]struct{}) bool {
	for key := range a {
		if _, ok := b[key]; !ok {
			return false
		}
	}
	return len(a) == len(b)
}

// collect adds the values that cells compare for equality.
func (tr *Transfer) collect(m *Model, atoms []atom) {
	for i := range atoms {
		a := &atoms[i]
		slot := a.slot
		switch {
		case a.op == atomEither:
			tr.collect(m, a.more.either)
			continue
		case a.op == atomConfig || int(slot) >= m.declared || m != tr.next && !tr.carried[slot].alike:
			continue
		case m != tr.next:
			slot = tr.carried[slot].to
		}
		tr.points(slot, condOf(a).pred)
	}
}

// points adds the values that a predicate has as points, or lacks as such.
func (tr *Transfer) points(slot int32, p *pred) {
	for _, s := range []intSet{p.ints, intDomain.complement(p.ints)} {
		for _, sp := range s {
			if p.op == inInts && sp.hi == sp.lo+1 {
				tr.literal(slot, value{state: present, key: sp.lo})
			}
		}
	}
	for _, s := range []strSet{p.strs, strDomain.complement(p.strs)} {
		for _, sp := range s {
			if p.op == inStrs && isPoint(sp) {
				tr.literal(slot, textValue(sp.lo))
			}
		}
	}
	for _, arg := range p.args {
		tr.points(slot, arg)
	}
}

func textValue(text string) value {
	return value{state: present, long: isLong(text), key: int64(hashText(text)), str: text, text: text}
}

// literal adds a value, unless a hash does not tell it from others: the hash of a version
// or an address is of its spelling, and of a text without regard to case, an expression
// reads the spelling.
func (tr *Transfer) literal(slot int32, v value) {
	f := &tr.next.fields[slot]
	var text string
	switch {
	case f.typ == stringField && f.format == plainText:
		if f.foldCase && slices.ContainsFunc(tr.next.fields, func(c field) bool { return slices.Contains(c.reads, slot) }) {
			return
		}
		text = v.str
	case f.typ == numberField:
		text = string(appendNumber(nil, numberOf(v.key)))
	case f.typ == booleanField:
		text = "false"
		if v.key == 1 {
			text = "true"
		}
	default:
		return
	}
	if tr.literals[slot] == nil {
		tr.literals[slot] = make(map[string]value)
	}
	tr.literals[slot][string(tr.hash(nil, f.name, text))] = v
}

// Replay prepares an evaluation of tables of the next model. e is what tables of the old
// one left. It is valid until the next call. refused is the refusal of a context that was
// kept.
func (tr *Transfer) Replay(e Evidence) (_ *Replay, refused error) {
	m, r := tr.next, &tr.replay
	r.transfer, r.noContext = tr, e.NoContext
	r.known = slices.Grow(r.known[:0], m.declared)[:m.declared]
	r.facts, r.units, r.stood = r.facts[:0], r.units[:0], false
	if r.tables == nil {
		r.tables, r.segments = make(map[*Table]*Verdict), make(map[int32]truth)
	}
	clear(r.tables)
	clear(r.segments)
	r.b.reset(m, e.At)
	redacted := false
	if e.Context != nil && !e.NoContext {
		refused = m.Bind(&r.b, e.Context, e.At)
		if redacted = tr.isRedacted(e.Context); refused != nil && !redacted {
			return r, refused
		}
	}
	r.b.hasContext = true
	for i := range r.known {
		r.known[i] = isUncalled
	}
	for i := range r.b.values[m.sent:m.declared] {
		r.b.values[m.sent+i] = value{} // missing, unless an input says otherwise
	}
	for _, t := range e.Tables {
		for _, slot := range t.own {
			switch c := tr.carried[slot]; {
			case c.to < 0:
			case tr.old.fields[slot].trace == traceNone:
				r.known[c.to] = isNone
			case c.missing:
				r.known[c.to] = isKnown
			default:
				r.known[c.to] = isChanged
			}
		}
	}
	if e.NoContext || e.Context != nil {
		for i := range r.known[:m.sent] {
			f := &m.fields[i]
			if r.known[i] = isKnown; redacted {
				if v := e.Context.Get(f.members()...); v != nil && tr.isRedacted(v) {
					r.known[i], r.b.values[i] = isRedacted, value{}
				}
			}
		}
	}
	if e.Inputs != nil && e.Inputs.Type() == fastjson.TypeObject {
		e.Inputs.GetObject().Visit(func(name []byte, v *fastjson.Value) { tr.input(r, name, v, e.Context != nil) })
	}
	return r, nil
}

// isRedacted reports whether text was taken out of a value.
func (tr *Transfer) isRedacted(v *fastjson.Value) bool {
	switch v.Type() {
	case fastjson.TypeString, fastjson.TypeArray, fastjson.TypeObject:
		tr.scratch = v.MarshalTo(tr.scratch[:0])
		return bytes.Contains(tr.scratch, []byte(redaction))
	}
	return false
}

// input binds an input of a trace.
func (tr *Transfer) input(r *Replay, name []byte, v *fastjson.Value, hasContext bool) {
	from, ok := tr.old.slots[string(name)]
	if !ok || int(from) >= tr.old.declared {
		return
	}
	c := tr.carried[from]
	if c.to < 0 || hasContext && int(c.to) < tr.next.sent && r.known[c.to] == isKnown {
		return
	}
	f := &tr.next.fields[c.to]
	switch {
	case v.Type() == fastjson.TypeObject:
		if r.known[c.to] = isChanged; c.alike {
			r.known[c.to] = isHashed
			if literal, ok := tr.literals[c.to][string(v.GetStringBytes("hash"))]; ok {
				r.known[c.to], r.b.values[c.to] = isKnown, literal
			}
		}
	case !c.value:
		r.known[c.to] = isChanged
	case tr.isRedacted(v):
		r.known[c.to] = isRedacted
	default:
		r.known[c.to], r.b.values[c.to] = isKnown, value{}
		r.b.bindValue(f, c.to, v) // a value that the next model does not take is missing
	}
}

// SetUnit gives the bucket of the unit that came to the split of a row of the old model's
// table. It holds for each split that hashes the same.
func (r *Replay) SetUnit(t *Table, row int, bucket uint32) {
	if row < 0 || t.answers[row].split == nil || bucket >= Buckets {
		return
	}
	s := t.answers[row].split
	if c := r.transfer.carried[s.by]; c.alike {
		r.units = append(r.units, unitBucket{c.to, s.key, s.salt, bucket})
	}
}

// unitBucket returns the bucket of SetUnit for a split.
func (r *Replay) unitBucket(s *split) (uint32, bool) {
	for i := range r.units {
		if u := &r.units[i]; u.by == s.by && u.salt == s.salt && u.key == s.key {
			return u.bucket, true
		}
	}
	return 0, false
}

// briefly is row for a transfer, which keeps where the doubts are and nothing for people.
func (r *Replay) briefly(t *Table, v *Verdict, row int, matched truth, at int) bool {
	if matched == no {
		return false
	}
	outcomes, passes := []int{t.answers[row].outcome}, false
	if s := t.answers[row].split; s != nil {
		if bucket, ok := r.unitBucket(s); !ok {
			outcomes, passes, _, _ = r.split(t, row, s, false)
		} else if part := s.part(bucket, s.covers(&r.b)); part < 0 {
			return false
		} else {
			outcomes[0] = s.shares[part].outcome
		}
	}
	for _, outcome := range outcomes {
		v.Possible, v.doubtful = append(v.Possible, t.Again(row, outcome)), append(v.doubtful, cellAt{row, at})
	}
	return matched == yes && !passes
}

// Doubt returns what is in doubt of a decision that is possible, or nil for one that
// comes if no other does.
func (r *Replay) Doubt(t *Table, possible int) *Doubt {
	at := r.Table(t).doubtful[possible]
	if at.row < 0 || at.cell < 0 && t.answers[at.row].split == nil {
		return nil
	}
	d := &Doubt{Row: t.rows[at.row].ID}
	if at.cell >= 0 {
		r.blame(d, &t.rowAtoms(at.row)[at.cell])
		return d
	}
	r.blameSlot(d, t.answers[at.row].split.by)
	if d.Reason == isKnown.reason() {
		return nil
	}
	return d
}

// firstDoubt returns the first doubt of a table's decision, or nil.
func (r *Replay) firstDoubt(t *Table) *Doubt {
	v := r.Table(t)
	if r.transfer == nil {
		return v.Doubt
	}
	for i := range v.Possible {
		if d := r.Doubt(t, i); d != nil && len(v.Possible) > 1 {
			return d
		}
	}
	return nil
}

// Decided returns the decision of a record: of the row with an id, which is empty for the
// default, and of an arm, if the row divides values. ok is false if the table has none
// such.
func (t *Table) Decided(row, arm string) (d Decision, ok bool) {
	if row == "" {
		return t.Again(-1, -1), true
	}
	i := slices.IndexFunc(t.rows, func(r Row) bool { return r.ID == row })
	if i < 0 {
		return d, false
	}
	s := t.answers[i].split
	if s == nil {
		return t.Again(i, t.answers[i].outcome), true
	}
	for j := range s.arms {
		if t.arm(s, s.first+j) == arm {
			return t.Again(i, s.first+j), true
		}
	}
	return d, false
}

// Listed reports whether the data model lists the values of a declared field.
func (m *Model) Listed(field string) bool {
	slot, ok := m.slots[field]
	return ok && int(slot) < m.sent && m.fields[slot].allowed != nil
}
