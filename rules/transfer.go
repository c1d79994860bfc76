package rules

import (
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
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
	asked     map[*atom]*asked
	segments  map[int32]bool // of same
	was, is   Replay         // reused: of the old model, and of the next one
}

// carried says what a field of the old model says of one of the next.
type carried struct {
	to int32 // its slot in the next model; -1: it has none
	// value reports whether a recorded value is what the next model is sent, missing whether
	// one without a value has none in the next model, and alike whether all values are the
	// same in both.
	value, missing, alike bool
}

// NewTransfer prepares replays on tables of next by traces of tables of old. hash is the
// one that made the hashes in the traces, or nil: then a hash may be of any value. tables are
// of either model; hashes are compared with the values that their cells name.
func NewTransfer(old, next *Model, tables []*Table, hash HashFunc) *Transfer {
	tr := &Transfer{old: old, next: next, hash: hash, carried: make([]carried, len(old.fields)), literals: make([]map[string]value, len(next.fields)), asked: make(map[*atom]*asked), segments: make(map[int32]bool)}
	tr.was.transfer, tr.is.transfer = tr, tr
	for i := range old.fields {
		tr.carried[i] = tr.carry(int32(i))
	}
	tr.refusal = tr.refuses()
	if hash == nil {
		return tr
	}
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
	return tr
}

// Alike reports whether the fields, computed ones and segments that a table of the next
// model reads are those of the old one, and no context is refused that the old one took.
func (tr *Transfer) Alike(t *Table) bool {
	for _, slots := range [][]int32{t.reads, t.lazy} {
		for _, slot := range slots {
			if !tr.same(slot) {
				return false
			}
		}
	}
	return tr.refusal == "" && !slices.ContainsFunc(t.answers, func(a answer) bool { return a.split != nil && !tr.same(a.split.by) })
}

// same reports whether a slot of the next model has the values of the one of its name.
func (tr *Transfer) same(slot int32) bool {
	if !tr.next.isSegment(slot) {
		return slices.ContainsFunc(tr.carried, func(c carried) bool { return c.to == slot && c.alike })
	}
	same, known := tr.segments[slot]
	if !known {
		s := &tr.next.segments[int(slot)-len(tr.next.fields)]
		if old, ok := tr.old.segmentOf[s.name]; ok {
			same = slices.EqualFunc(tr.old.segments[int(old)-len(tr.old.fields)].rows, s.rows, tr.sameRow)
		}
		tr.segments[slot] = same
	}
	return same
}

func (tr *Transfer) sameRow(old, next []atom) bool {
	return slices.EqualFunc(old, next, func(a, b atom) bool {
		switch {
		case a.op != b.op || a.onMissing != b.onMissing || a.op == atomConfig:
			return false
		case a.op == atomEither:
			return tr.sameRow(a.more.either, b.more.either)
		case a.slot == tr.old.nowSlot() || b.slot == tr.next.nowSlot() || tr.old.slotName(a.slot) != tr.next.slotName(b.slot) || !tr.same(b.slot):
			return false
		}
		return samePred(condOf(&a).pred, condOf(&b).pred)
	})
}

// Refuses returns what of the next model may refuse contexts that the old one took: an
// option or a field. It is empty if it refuses none.
func (tr *Transfer) Refuses() string { return tr.refusal }

func (tr *Transfer) refuses() string {
	rejects, strict := tr.next.onUnknown == rejectPolicy, tr.next.strict
	switch {
	case rejects && tr.old.onUnknown != rejectPolicy:
		return "on_unknown_field"
	case strict && !tr.old.strict:
		return "on_type_mismatch"
	case !rejects && !strict:
		return ""
	}
	for i := range tr.old.fields[:tr.old.sent] {
		if c := tr.carried[i]; c.to < 0 && rejects || c.to >= 0 && strict && (!c.alike || tr.next.fields[c.to].required) {
			return tr.old.fields[i].name
		}
	}
	for i := range tr.next.fields[:tr.next.sent] {
		if _, known := tr.old.slots[tr.next.fields[i].name]; strict && !known {
			return tr.next.fields[i].name
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
	allows := f.min == g.min && f.max == g.max && maps.Equal(f.texts, g.texts) && maps.Equal(f.numbers, g.numbers) && f.foldCase == g.foldCase
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

// collect adds the values that cells compare for equality.
func (tr *Transfer) collect(m *Model, atoms []atom) {
	for i := range atoms {
		a := &atoms[i]
		if a.op == atomEither {
			tr.collect(m, a.more.either)
		} else if slot := tr.slotOf(m, a); slot >= 0 {
			tr.points(slot, condOf(a).pred)
		}
	}
}

// slotOf returns the field in the next model that a condition of either is on, or -1 if it
// is on none that both have alike.
func (tr *Transfer) slotOf(m *Model, a *atom) int32 {
	switch {
	case a.op == atomConfig || a.op == atomEither || int(a.slot) >= m.declared:
		return -1
	case m == tr.next:
		return a.slot
	case !tr.carried[a.slot].alike:
		return -1
	}
	return tr.carried[a.slot].to
}

// points adds the values that a predicate has as points, or lacks as such.
func (tr *Transfer) points(slot int32, p *pred) {
	for _, s := range []intSet{p.ints, intDomain.complement(p.ints)} {
		for _, sp := range s {
			if p.op == inInts && isIntPoint(sp) {
				tr.literal(slot, value{key: sp.lo})
			}
		}
	}
	for _, s := range []strSet{p.strs, strDomain.complement(p.strs)} {
		for _, sp := range s {
			if p.op == inStrs && isPoint(sp) {
				tr.literal(slot, value{long: isLong(sp.lo), key: int64(hashText(sp.lo)), str: sp.lo, text: sp.lo})
			}
		}
	}
	for _, arg := range p.args {
		tr.points(slot, arg)
	}
}

func isIntPoint(s span[int64]) bool { return s.hi == s.lo+1 }

// literal adds a value, unless a hash does not tell it from others: the hash of a version
// or an address is of its spelling, and of a text without regard to case, an expression
// reads the spelling.
func (tr *Transfer) literal(slot int32, v value) {
	f := &tr.next.fields[slot]
	text := v.str
	switch {
	case f.typ == stringField && f.format == plainText:
		if f.foldCase && slices.ContainsFunc(tr.next.fields, func(c field) bool { return slices.Contains(c.reads, slot) }) {
			return
		}
	case f.typ == numberField:
		text = string(appendNumber(nil, numberOf(v.key)))
	case f.typ == booleanField:
		text = strconv.FormatBool(v.key == 1)
	default:
		return
	}
	if tr.literals[slot] == nil {
		tr.literals[slot] = make(map[string]value)
	}
	v.state = present
	tr.literals[slot][string(tr.hash(nil, f.name, text))] = v
}

// Replay prepares an evaluation of tables of the next model. e is what tables of the old
// one left. It is valid until the next call. The error says what of the evidence can't be
// of the old model.
func (tr *Transfer) Replay(e Evidence) (*Replay, error) {
	was, r := &tr.was, &tr.is
	if err := was.start(tr.old, e); err != nil {
		return nil, err
	}
	r.begin(tr.next, e)
	hashed := false
	if e.Context != nil && !e.NoContext {
		r.refused = tr.next.Bind(&r.b, e.Context, e.At)
		r.b.hasContext = true
	}
	for i := range r.known {
		if r.known[i] = isUncalled; i < tr.next.sent && (e.Context != nil || e.NoContext) {
			if r.known[i] = isKnown; e.Context != nil {
				if v := e.Context.Get(tr.next.fields[i].members()...); v != nil && isRedactedValue(v) {
					r.known[i], r.b.values[i], r.refused = isRedacted, value{}, nil
				}
			}
		} else if i >= tr.next.sent {
			r.b.values[i] = value{} // a field of the gateway is missing, unless an input says otherwise
		}
	}
	for i, c := range tr.carried[:tr.old.declared] {
		if c.to < 0 || e.Context != nil && r.known[c.to] == isKnown {
			continue
		}
		known, v := was.known[i], e.Inputs.Get(tr.old.fields[i].name)
		if literal, ok := tr.literals[c.to][string(v.GetStringBytes("hash"))]; ok && known == isHashed && c.alike {
			known, was.known[i], was.b.values[i] = isKnown, isKnown, literal
		}
		hashed = hashed || known == isHashed
		switch {
		case known != isKnown && (c.alike || known != isHashed):
			r.known[c.to] = known
		case c.alike:
			r.known[c.to], r.b.values[c.to] = known, was.b.values[i]
		case v != nil && c.value && known == isKnown:
			r.known[c.to], r.b.values[c.to] = isKnown, value{}
			r.b.bindValue(&r.b.model.fields[c.to], c.to, v) // a value that the next model does not take is missing
		case v == nil && c.missing:
			r.known[c.to] = isKnown
		default:
			r.known[c.to] = isChanged
		}
	}
	for _, row := range e.Rows {
		switch {
		case !row.Decided && was.SetBucket(row.Table, row.Row, row.Bucket):
			u := was.units[len(was.units)-1]
			if c := tr.carried[u.by]; c.alike {
				r.units = append(r.units, unitBucket{c.to, u.seed, u.bucket, u.row})
			}
		case row.Decided && hashed: // nothing is said of values that are known
			tr.learn(row.Table, row.Row)
		}
	}
	return r, nil
}

// Refused returns the error of a next model that refuses the context.
func (r *Replay) Refused() error { return r.refused }

// next returns the first row from one on that may match: of a transfer, by the table's
// index.
func (r *Replay) next(t *Table, row int) int {
	x := t.index
	switch {
	case r.transfer != nil && t.named != nil:
		return r.nextNamed(t, row)
	case r.transfer == nil || x == nil:
		return row
	}
	var at [maxColumns]uint32
	n := 0
	for i := range x.columns {
		c := &x.columns[i]
		known := isUncalled
		if int(c.slot) < len(r.b.model.fields) {
			known = r.slot(c.slot)
		}
		switch {
		case c.kind == elementColumn:
			continue
		case known == isKnown:
			r.b.resolve(c.slot)
			at[n] = x.bitmap(c, c.class(&r.b.values[c.slot]))
		case c.kind == pointColumn && r.isOther(c.slot):
			at[n] = x.bitmap(c, otherClass)
		default:
			continue
		}
		n++
	}
	for w := row >> 6; w < x.words; w++ {
		rows := x.live[w]
		if w == row>>6 {
			rows &= ^uint64(0) << (row & 63)
		}
		for _, start := range at[:n] {
			rows &= x.maps[int(start)+w]
		}
		if rows != 0 {
			return w<<6 + bits.TrailingZeros64(rows)
		}
	}
	return len(t.rows)
}

// nextNamed is next for rows that are found by the text that they name.
func (r *Replay) nextNamed(t *Table, row int) int {
	n, named := t.named, []int32(nil)
	switch v := &r.b.values[n.slot]; {
	case int(n.slot) < r.b.model.declared && r.known[n.slot] == isKnown && v.state == present:
		named = n.rows[v.str]
	case int(n.slot) < r.b.model.declared && r.known[n.slot] == isKnown:
		named = n.missing
	case !r.isOther(n.slot):
		return row
	}
	next := len(t.rows)
	for _, rows := range [][]int32{n.others, named} {
		if i, _ := slices.BinarySearch(rows, int32(row)); i < len(rows) {
			next = min(next, int(rows[i]))
		}
	}
	return next
}

// fact is what a record says of a value that it has as a hash: whether a condition holds,
// and the set in which the value lies by this and all facts before.
type fact struct {
	slot             int32
	onMissing, holds bool
	pred, within     *pred
}

// asked is a condition on a value that is a hash of none of the literals: the sets in which
// it lies if the condition holds, and if not.
type asked struct{ pred, in, out *pred }

// isOther reports whether a field has a value that is none of those that tables name.
func (r *Replay) isOther(slot int32) bool {
	if int(slot) >= r.b.model.declared || r.known[slot] != isHashed {
		return false
	}
	if r == &r.transfer.was {
		c := r.transfer.carried[slot]
		return c.alike && r.transfer.literals[c.to] != nil
	}
	return r.transfer.literals[slot] != nil
}

// ask returns a condition of either model, worked out once.
func (tr *Transfer) ask(slot int32, a *atom) *asked {
	q := tr.asked[a]
	if q == nil {
		p := condOf(a).pred
		q = &asked{p, p, notPred(p)}
		if tr.literals[slot] != nil {
			q.in, q.out = withoutPoints(q.in), withoutPoints(q.out)
		}
		tr.asked[a] = q
	}
	return q
}

// withoutPoints returns what a predicate says of values that are no points of its sets.
func withoutPoints(p *pred) *pred {
	args := make([]*pred, len(p.args))
	for i, arg := range p.args {
		args[i] = withoutPoints(arg)
	}
	switch p.op {
	case inInts:
		return intPred(slices.DeleteFunc(slices.Clone(p.ints), isIntPoint))
	case inStrs:
		return strPred(slices.DeleteFunc(slices.Clone(p.strs), isPoint))
	case allOf:
		return allPred(args)
	case oneOf:
		return anyPred(args)
	case negation:
		return notPred(args[0])
	}
	return p
}

// learn takes over what it says of hashed values that a table of the old model was
// answered by a row, or by its default for -1.
func (tr *Transfer) learn(t *Table, decided int) {
	was := &tr.was
	for i := was.next(t, 0); i < len(t.rows); i = was.next(t, i+1) {
		atoms := t.rowAtoms(i)
		if i == decided {
			for j := range atoms {
				tr.tell(&atoms[j], true)
			}
			return
		}
		if t.answers[i].split != nil {
			continue // it may have passed a unit on
		}
		doubtful := 0
		var failed *atom
		for j := range atoms {
			switch was.atom(&atoms[j]) {
			case no:
				doubtful += 2
			case maybe:
				failed = &atoms[j]
				doubtful++
			}
		}
		if doubtful == 1 {
			tr.tell(failed, false)
		}
	}
}

// tell keeps whether a condition of the old model holds for a hashed value.
func (tr *Transfer) tell(a *atom, holds bool) {
	slot := tr.slotOf(tr.old, a)
	if slot < 0 || tr.is.known[slot] != isHashed {
		return
	}
	q := tr.ask(slot, a)
	f := fact{slot, a.onMissing, holds, q.pred, q.out}
	if holds {
		f.within = q.in
	}
	if q.pred.hasPattern() {
		f.within = alwaysPred // a long value counts as missing
	}
	for _, before := range slices.Backward(tr.is.facts) {
		if before.slot == slot {
			f.within = allPred([]*pred{before.within, f.within})
			break
		}
	}
	tr.is.facts = append(tr.is.facts, f)
}

// told evaluates a condition on a value that was recorded as a hash.
func (r *Replay) told(a *atom) truth {
	if r.transfer == nil {
		return maybe
	}
	slot := r.transfer.slotOf(r.b.model, a)
	if slot < 0 {
		return maybe
	}
	q := r.transfer.ask(slot, a)
	within := alwaysPred
	for i := range r.facts {
		f := &r.facts[i]
		if f.slot == slot && f.onMissing == a.onMissing && samePred(f.pred, q.pred) {
			return truthOf(f.holds)
		}
		if f.slot == slot {
			within = f.within
		}
	}
	found := maybe
	if disjoint(q.in, within) {
		found = no
	} else if disjoint(q.out, within) {
		found = yes
	}
	if q.pred.hasPattern() && found != truthOf(a.onMissing) {
		return maybe
	}
	return found
}

// disjoint reports whether no value is known to meet both predicates.
func disjoint(p, q *pred) bool {
	switch {
	case p.op == never || q.op == never:
		return true
	case p.op == always || q.op == always:
		return false
	case p.op == inInts && q.op == inInts:
		return !intDomain.meet(p.ints, q.ints)
	case p.op == inStrs && q.op == inStrs:
		return !strDomain.meet(p.strs, q.strs)
	}
	return allPred([]*pred{p, q}).op == never
}

// samePred reports whether two predicates are written alike.
func samePred(p, q *pred) bool {
	return p == q || p.op == q.op && p.text == q.text && slices.Equal(p.ints, q.ints) && slices.Equal(p.strs, q.strs) &&
		(p.re == nil) == (q.re == nil) && (p.re == nil || p.re.String() == q.re.String()) && slices.EqualFunc(p.args, q.args, samePred)
}

// Decided returns the decision of a record: of a row, -1 for the default, and of an arm, if
// the row divides values. ok is false if the table has none such.
func (t *Table) Decided(i int, arm string) (d Decision, ok bool) {
	if i < 0 {
		return t.Again(-1, -1), true
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

// remedy returns the setting with which later traces have what is not known of a field of
// the next model. It is empty where there is none, or the next model has it.
func (tr *Transfer) remedy(f *field, known knowledge) string {
	slot := tr.next.slots[f.name]
	switch {
	case tr.next.isGateway(slot) || known == isRedacted || known == isChanged:
		return ""
	case f.trace == traceNone || known == isHashed && f.trace == traceHash:
		return "trace: value"
	case known == isUncalled && !slices.Contains(tr.next.always, slot):
		setting := "trace: { always: [" + f.name + "] }"
		if f.trace == traceHash && f.typ != stringField { // whose cells are ranges
			setting += " and trace: value"
		}
		return setting
	}
	if was, ok := tr.old.slots[f.name]; known == isHashed && ok && tr.old.fields[was].trace == traceValue {
		return "log: content" // it is long
	}
	return ""
}

// Listed reports whether the data model lists the values of a declared field.
func (m *Model) Listed(field string) bool {
	slot, ok := m.slots[field]
	return ok && int(slot) < m.sent && m.fields[slot].allowed != nil
}
