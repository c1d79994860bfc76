package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/valyala/fastjson"
)

// Replay evaluates tables again by the part of a context that a trace has. A value
// that was recorded as a hash is present and may be any, and one of a field that
// records nothing may also be missing. So a cell matches, does not, or is in doubt,
// and the answer is a list of the decisions that are possible:
//
//	inputs {"plan": "pro", "seats": {"hash": "…"}}
//	- { id: team, when: { plan: team, seats: 10.. }, value: a }   no: the plan differs
//	- { id: many, when: { plan: pro,  seats: 10.. }, value: b }   in doubt: seats
//	- { id: rest, when: { plan: pro },               value: c }   yes
//	possible: many, rest
//
// A decision that is not possible was certainly not made. A unit that is not known
// is divided by its bucket, if the trace has that.
//
// A Replay is not safe for concurrent use.
type Replay struct {
	b      Binding
	known  []knowledge // of the declared fields
	units  []unitBucket
	tables map[*Table]*Verdict
	// segments are the segments that were decided.
	segments map[int32]truth
	// problems are where the evidence contradicts itself.
	problems []string
	// noContext says that only tables that read a field of the gateway were tried.
	noContext bool
	// stood says that a bucket stood in for a unit.
	stood     bool
	allSplits bool // see Evidence
	// transfer is set for one of a Transfer: then verdicts say nothing for people.
	transfer *Transfer
	facts    []fact
	refused  error
}

// unitBucket is the recorded bucket of a unit, for each split that hashes it alike.
type unitBucket struct {
	by     int32
	seed   xxhash.Digest
	bucket uint32
	row    string // of which it is recorded
}

// knowledge is the degree to which a field's value is known.
type knowledge uint8

const (
	isKnown    knowledge = iota // the value, or that it is missing
	isHashed                    // it has a value
	isNone                      // nothing: its field records nothing
	isUncalled                  // nothing: only a table that was not consulted reads it
	isRedacted                  // nothing: it was redacted
	isChanged                   // nothing: the field is declared otherwise than it was
)

// reason says why a value is not known.
func (k knowledge) reason() string {
	switch k {
	case isHashed:
		return "recorded as a hash"
	case isNone:
		return "not recorded (trace: none)"
	case isUncalled:
		return "not recorded: no table that was consulted reads it"
	case isRedacted:
		return "redacted"
	case isChanged:
		return "not known, because the field is declared otherwise than it was"
	}
	return "known"
}

// truth is the value of a condition.
type truth uint8

const (
	no truth = iota
	maybe
	yes
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// Evidence is the part of a decision's context that its trace has.
type Evidence struct {
	// Inputs is the trace's object of values and hashes, or nil.
	Inputs *fastjson.Value
	// Context is the context as it was sent, or nil if it was not kept.
	Context *fastjson.Value
	// Tables are the tables whose fields Inputs has: the ones that answered,
	// and the prerequisites that were consulted.
	Tables []*Table
	// At is the instant of the decision.
	At time.Time
	// NoContext says that the request had no context: only tables that read a field of
	// the gateway were tried.
	NoContext bool
	// AllSplits says that the trace has every split that a unit came to: where one is
	// absent, there was no unit.
	AllSplits bool
	// Rows are what a trace says of rows, for a Transfer.
	Rows []RowEvidence
}

// RowEvidence is what a trace says of a row of a table: that it decided, for -1 that none
// did, or the bucket of its unit.
type RowEvidence struct {
	Table   *Table
	Row     int
	Decided bool
	Bucket  uint32
}

// Replay prepares an evaluation by evidence. The values in it must stay as they are
// while the replay is used. The error says what of the evidence can't be of the model.
func (m *Model) Replay(e Evidence) (*Replay, error) {
	r := new(Replay)
	if err := r.start(m, e); err != nil {
		return nil, err
	}
	return r, nil
}

// start makes the replay ready, whatever it was used for.
func (r *Replay) start(m *Model, e Evidence) error {
	r.begin(m, e)
	if err := r.inputs(e); err != nil || e.Context == nil {
		return err
	}
	return r.context(e)
}

func (r *Replay) begin(m *Model, e Evidence) {
	if r.tables == nil {
		r.tables, r.segments = make(map[*Table]*Verdict), make(map[int32]truth)
	}
	clear(r.tables)
	clear(r.segments)
	r.known = slices.Grow(r.known[:0], m.declared)[:m.declared]
	r.units, r.facts, r.problems, r.stood, r.refused = r.units[:0], r.facts[:0], nil, false, nil
	r.b.reset(m, e.At)
	r.b.hasContext, r.noContext, r.allSplits = true, e.NoContext, e.AllSplits
}

// redaction begins what stands for text that was taken out of a record.
const redaction = "[redacted:"

// isRedactedValue reports whether text was taken out of a value.
func isRedactedValue(v *fastjson.Value) bool {
	return strings.Contains(string(v.MarshalTo(nil)), redaction)
}

// inputs binds the inputs of a trace.
func (r *Replay) inputs(e Evidence) error {
	m := r.b.model
	for i := range r.known {
		r.known[i] = isUncalled
	}
	for _, t := range e.Tables {
		for _, slot := range t.own {
			if r.known[slot] = isKnown; m.fields[slot].trace == traceNone {
				r.known[slot] = isNone
			}
		}
	}
	for _, slot := range m.always {
		r.known[slot] = isKnown
	}
	if e.NoContext {
		for i := range r.known[:m.sent] {
			r.known[i] = isKnown // to be missing
		}
	}
	if e.Inputs == nil {
		return nil
	}
	object, err := e.Inputs.Object()
	if err != nil {
		return errors.New("inputs is no object")
	}
	object.Visit(func(name []byte, v *fastjson.Value) {
		slot, ok := m.slots[string(name)]
		if ok && int(slot) < m.declared && r.transfer != nil && r.known[slot] == isUncalled {
			r.known[slot] = isKnown // it was recorded whatever was consulted
		}
		switch {
		case err != nil:
		case !ok || int(slot) >= m.declared:
			err = fmt.Errorf("inputs has %q, which is no field of the data model", shorten(string(name)))
		case r.known[slot] == isUncalled:
			err = fmt.Errorf("inputs has %q, which no table reads that was consulted, and which trace.always does not name", shorten(string(name)))
		case r.known[slot] == isNone:
			err = fmt.Errorf("inputs has %q, whose field has trace: none", shorten(string(name)))
		case v.Type() == fastjson.TypeObject && m.isGateway(slot):
			err = fmt.Errorf("inputs has %s of %q, a field of the gateway, which is recorded as it is", describeJSON(v), shorten(string(name)))
		case v.Type() == fastjson.TypeObject:
			r.known[slot] = isHashed
			if hash := v.GetStringBytes("hash"); len(hash) == 0 {
				err = fmt.Errorf("the input %q is neither a value nor a hash", shorten(string(name)))
			}
		case isRedactedValue(v):
			r.known[slot] = isRedacted
		case m.fields[slot].trace == traceHash:
			err = fmt.Errorf("inputs has a value of %q, whose field is recorded as a hash", shorten(string(name)))
		default:
			f := &m.fields[slot]
			reason := r.b.bindValue(f, slot, v)
			if reason == "" && r.b.values[slot].state != present {
				reason = NoteTypeMismatch
			}
			if reason != "" {
				err = fmt.Errorf("the input %q is %s, which is no value of the field (%s)", f.name, describeJSON(v), reason)
			}
		}
	})
	return err
}

// context completes the inputs by the context as it was sent.
func (r *Replay) context(e Evidence) error {
	m := r.b.model
	var sent Binding
	if err := m.Bind(&sent, e.Context, e.At); err != nil {
		return fmt.Errorf("the context is refused: %w", err)
	}
	if sent.NoContext() && !e.NoContext {
		return errors.New("the context is empty, and a decision was made by it")
	}
	if e.NoContext && !sent.NoContext() {
		return errors.New("the trace says that there was no context, and has one")
	}
	for i := range r.known[:m.sent] { // the gateway's fields are in no context
		slot, f := int32(i), &m.fields[i]
		if v := e.Context.Get(f.members()...); v != nil && isRedactedValue(v) {
			if r.known[i] == isUncalled || r.known[i] == isNone {
				r.known[i] = isRedacted
			}
			continue
		}
		switch has := sent.values[slot].state == present; {
		case r.known[i] == isHashed && !has:
			return fmt.Errorf("inputs has a hash of %q, of which the context has no value", f.name)
		case r.known[i] == isKnown && string(r.b.appendKey(nil, slot)) != string(sent.appendKey(nil, slot)):
			return fmt.Errorf("the input %q is %s, and %s by the context", f.name, r.b.appendValue(nil, slot), sent.appendValue(nil, slot))
		}
		r.known[i], r.b.values[slot] = isKnown, sent.values[slot]
	}
	return nil
}

// SetBucket gives the bucket of the unit of a row's split, as the trace has it. It
// reports whether the row has a split. A bucket that contradicts the unit's value, or
// another split that divides alike, is a problem.
func (r *Replay) SetBucket(t *Table, row int, bucket uint32) bool {
	if row < 0 || row >= len(t.rows) || t.answers[row].split == nil || bucket >= Buckets {
		return false
	}
	s, name := t.answers[row].split, t.rows[row].ID
	if r.slot(s.by) == isKnown {
		r.b.resolve(s.by)
		if own, ok := s.bucket(&r.b); !ok {
			r.problem("%s has a bucket of %s, which is missing", name, r.b.model.fields[s.by].name)
		} else if own != bucket {
			r.problem("%s: the unit falls on bucket %d, and %d is recorded", name, own, bucket)
		}
	}
	if as := r.unitOf(s); as != nil && as.bucket != bucket {
		r.problem("%s and %s divide units alike, and the buckets of one unit are different", min(name, as.row), max(name, as.row))
	}
	r.units = append(r.units, unitBucket{s.by, s.seed, bucket, name})
	return true
}

// Arms are the shares of a row's split at the replay's instant, as parts of 1. The row
// must have a split.
func (r *Replay) Arms(t *Table, row int) map[string]float64 {
	s := t.answers[row].split
	arms := make(map[string]float64, len(s.arms))
	_ = json.Unmarshal(t.appendArms(nil, s, r.covers(s)), &arms) // as the trace has them
	return arms
}

// unitOf returns what a trace has of a split's unit, or nil.
func (r *Replay) unitOf(s *split) *unitBucket {
	for i := range r.units {
		if u := &r.units[i]; u.by == s.by && u.seed == s.seed {
			return u
		}
	}
	return nil
}

// Consulted returns a record's entry for a unit in the bucket that came to the split
// of a row at the replay's instant. The row must have a split.
func (r *Replay) Consulted(t *Table, row int, bucket uint32) Consulted {
	s := t.answers[row].split
	return s.consulted(t, row, bucket, r.covers(s))
}

// covers returns the coverage of a split at the replay's instant, or the share of a rollout.
func (r *Replay) covers(s *split) uint32 {
	if s.guarded && s.rollout >= 0 {
		r.b.resolve(s.rollout)
	}
	return s.covers(&r.b)
}

// Part is the share as a part of 1, as traces have it.
func (c Consulted) Part() float64 { return float64(c.Share) / Buckets }

// Problems are where the evidence contradicts itself, such as a bucket that is not
// the unit's.
func (r *Replay) Problems() []string { return r.problems }

// StoodIn reports whether a recorded bucket stood in for a unit that is not known.
func (r *Replay) StoodIn() bool { return r.stood }

// Verdict is the set of decisions that a table may have made.
type Verdict struct {
	// Possible are the decisions that are possible, top to bottom: one is certain.
	Possible []Decision
	// Doubt is the first cell that is in doubt and matters, or nil if only one
	// decision is possible.
	Doubt *Doubt
	// Rows are the rows up to the one that ends the search.
	Rows []ReplayedRow
	// consulted are the rows whose split a unit certainly came to, and reached all
	// whose split it may have come to.
	consulted, reached []int
	asked              []*Table
	doubtful           []cellAt // of Possible: what is in doubt
}

// cellAt is a cell of a row in doubt: cell -1 is its split, and row -1 none.
type cellAt struct{ row, cell int }

// Asked are the tables of prerequisites that were certainly consulted, each once,
// including the prerequisites of these.
func (r *Replay) Asked(t *Table) []*Table {
	var all []*Table
	var walk func(t *Table)
	walk = func(t *Table) {
		for _, asked := range r.Table(t).asked {
			if !slices.Contains(all, asked) {
				all = append(all, asked)
				walk(asked)
			}
		}
	}
	walk(t)
	return all
}

// Consulted are the rows whose split or ramp the unit certainly came to.
func (v *Verdict) Consulted() []int { return v.consulted }

// MayHaveConsulted reports whether a unit may have come to the split of a row.
func (v *Verdict) MayHaveConsulted(row int) bool { return slices.Contains(v.reached, row) }

// ReplayedRow says of a row whether it matched.
type ReplayedRow struct {
	ID      string
	Matched string // yes, no or unknown
	// Why is the cell that failed or is in doubt, or what became of the unit of a
	// split; empty where all cells match.
	Why string
}

// Table evaluates a table.
func (r *Replay) Table(t *Table) *Verdict {
	if v, ok := r.tables[t]; ok {
		return v
	}
	v := &Verdict{}
	r.tables[t] = v
	none := cellAt{-1, -1}
	if r.noContext && !t.gateway {
		v.Possible, v.doubtful = []Decision{{Row: -1, Outcome: -1, Reason: NoContext}}, []cellAt{none}
		return v
	}
	if t.model != r.b.model {
		v.Possible, v.doubtful = []Decision{t.Again(-1, -1)}, []cellAt{none}
		return v
	}
	certain := false
	for row := r.next(t, 0); row < len(t.rows) && !certain; row = r.next(t, row+1) {
		certain = r.row(t, v, row)
	}
	if !certain {
		v.Possible, v.doubtful = append(v.Possible, t.Again(-1, -1)), append(v.doubtful, none)
	}
	if r.transfer == nil {
		v.Doubt = r.firstDoubt(t)
	}
	return v
}

// row evaluates a row, and reports whether it answers for certain.
func (r *Replay) row(t *Table, v *Verdict, row int) bool {
	matched, at := r.cells(t.rowAtoms(row))
	show := func(matched, why string) {
		if r.transfer == nil {
			v.Rows = append(v.Rows, ReplayedRow{t.rows[row].ID, matched, why})
		}
	}
	if len(v.Possible) == 0 && r.transfer == nil {
		r.ask(v, t.rowAtoms(row))
	}
	if matched == no {
		if r.transfer == nil {
			ref := t.rowCells(row)[at]
			show("no", ref.name+" must be "+CellText(ref.node)+", is "+string(r.appendSeen(&t.rowAtoms(row)[at])))
		}
		return false
	}
	outcomes, passes, why := []int{t.answers[row].outcome}, false, ""
	if s := t.answers[row].split; s != nil {
		var unit bool
		outcomes, passes, why, unit = r.split(s, matched == yes)
		v.reached = append(v.reached, row)
		if matched == yes && unit && len(v.Possible) == 0 {
			v.consulted = append(v.consulted, row)
		}
		if len(outcomes) == 0 {
			show("no", why)
			return false
		}
	}
	for _, outcome := range outcomes {
		v.Possible, v.doubtful = append(v.Possible, t.Again(row, outcome)), append(v.doubtful, cellAt{row, at})
	}
	switch {
	case matched == yes && !passes && len(outcomes) == 1:
		show("yes", why)
	case r.transfer == nil:
		show("unknown", r.Doubt(t, len(v.Possible)-1).String())
	}
	return matched == yes && !passes
}

// ask notes the prerequisites that a row consults which is reached for certain, if its
// other cells match. A row consults them in the order of its file up to the first that
// does not hold, and a content has another order. So of several, all are certain if
// all hold, else only the one that does not, if there is exactly one.
func (r *Replay) ask(v *Verdict, atoms []atom) {
	first := len(atoms)
	for first > 0 && atoms[first-1].op == atomConfig { // these are last
		first--
	}
	asks := atoms[first:]
	if matched, _ := r.cells(atoms[:first]); matched != yes {
		return
	}
	var certain, failed []*Table
	for i := range asks {
		t := asks[i].more.config.Table
		switch r.atom(&asks[i]) {
		case no:
			failed = append(failed, t)
		case maybe:
			if len(asks) > 1 {
				return
			}
		}
		certain = append(certain, t)
	}
	switch len(failed) {
	case 0:
		v.asked = append(v.asked, certain...)
	case 1:
		v.asked = append(v.asked, failed...)
	}
}

// cells joins the cells of a row. at is the cell that decides: the first that fails,
// else the first in doubt, else -1.
func (r *Replay) cells(atoms []atom) (matched truth, at int) {
	matched, at = yes, -1
	for i := range atoms {
		switch r.atom(&atoms[i]) {
		case no:
			return no, i
		case maybe:
			if matched == yes {
				matched, at = maybe, i
			}
		}
	}
	return matched, at
}

// atom evaluates a condition.
func (r *Replay) atom(a *atom) truth {
	m := r.b.model
	switch {
	case a.op == atomEither:
		found := no
		for i := range a.more.either {
			found = max(found, r.atom(&a.more.either[i]))
		}
		return found
	case a.op == atomConfig:
		return r.prerequisite(a.more.config)
	case a.slot == m.nowSlot():
		return truthOf(a.match(&r.b))
	case m.isSegment(a.slot):
		in := r.segment(a.slot)
		if a.span.lo <= 1 && 1 < a.span.hi {
			return in
		}
		return yes - in
	}
	switch known := r.slot(a.slot); {
	case known == isKnown:
		r.b.resolve(a.slot)
		return truthOf(a.match(&r.b))
	case known == isHashed && int(a.slot) < m.declared:
		if told := r.told(a); told != maybe {
			return told
		}
		return r.anyValue(a)
	default:
		if whole := r.anyValue(a); whole == truthOf(a.onMissing) {
			return whole
		}
		return maybe
	}
}

// anyValue evaluates a condition on a field that has a value, which may be any.
func (r *Replay) anyValue(a *atom) truth {
	switch a.op {
	case atomAlways:
		return yes
	case atomNever:
		return no
	}
	f := &r.b.model.fields[a.slot]
	var values []value
	switch {
	case f.typ == booleanField:
		values = []value{{state: present}, {state: present, key: 1}}
	case f.typ == stringField && f.texts != nil:
		for key := range f.texts {
			values = append(values, value{state: present, long: isLong(key), key: int64(hashText(key)), str: key})
		}
	case f.typ == numberField && f.numbers != nil:
		for key := range f.numbers {
			values = append(values, value{state: present, key: key})
		}
	default:
		return maybe
	}
	kept := r.b.values[a.slot]
	defer func() { r.b.values[a.slot] = kept }()
	all, some := true, false
	for _, v := range values {
		r.b.values[a.slot] = v
		matched := a.match(&r.b)
		all, some = all && matched, some || matched
	}
	switch {
	case all:
		return yes
	case !some:
		return no
	}
	return maybe
}

// prerequisite evaluates the condition on another table's answer.
func (r *Replay) prerequisite(p *Prerequisite) truth {
	all, some := true, false
	for _, d := range r.Table(p.Table).Possible {
		holds := p.AcceptDefault
		if d.Outcome >= 0 {
			holds = p.accepts(d.Outcome)
		}
		all, some = all && holds, some || holds
	}
	switch {
	case all:
		return yes
	case some:
		return maybe
	}
	return no
}

// segment reports whether the context is in a segment.
func (r *Replay) segment(slot int32) truth {
	in, ok := r.segments[slot]
	if ok {
		return in
	}
	for _, row := range r.b.model.segments[int(slot)-len(r.b.model.fields)].rows {
		matched, _ := r.cells(row)
		in = max(in, matched)
	}
	r.segments[slot] = in
	return in
}

// slot returns the knowledge of a field, declared or computed. That of a computed
// field is the knowledge of the first field behind it that is not known.
func (r *Replay) slot(slot int32) knowledge {
	m := r.b.model
	if int(slot) < m.declared {
		return r.known[slot]
	}
	for _, read := range m.readsOf(slot) {
		if r.known[read] != isKnown {
			return r.known[read]
		}
	}
	return isKnown
}

// split returns the outcomes that the unit of a row may get, whether it may be passed
// on, and for people what became of it. unit reports whether it certainly has one.
func (r *Replay) split(s *split, certain bool) (outcomes []int, passes bool, why string, unit bool) {
	var recorded uint32
	u := r.unitOf(s)
	hasBucket := u != nil
	if hasBucket {
		recorded = u.bucket
	}
	name := r.b.model.fields[s.by].name
	known := r.slot(s.by)
	if known == isKnown {
		r.b.resolve(s.by)
		bucket, ok := s.bucket(&r.b)
		if !ok {
			return nil, true, s.kind() + ": " + name + " is missing", false
		}
		recorded, hasBucket, unit = bucket, true, true
	} else if hasBucket {
		r.stood = r.stood || certain
		unit = true
	} else if r.allSplits && known != isHashed {
		return nil, true, s.kind() + ": " + name + " is missing, since no bucket is recorded", false
	}
	coverage := r.covers(s)
	unknownShare := r.isShareUnknown(s)
	if hasBucket && !unknownShare {
		if r.transfer == nil {
			why = s.kind() + ": " + name + " falls on " + shareText(recorded)
		}
		part := s.part(recorded, coverage)
		if part < 0 {
			return nil, true, why + ", which is not covered", unit
		}
		return []int{s.shares[part].outcome}, false, why, unit
	}
	if s.guarded {
		outcomes = s.guardedOutcomes(coverage, unknownShare)
		return outcomes, !unit && (known != isHashed || int(s.by) >= r.b.model.declared), "", unit || known == isHashed && int(s.by) < r.b.model.declared
	}
	covered := uint32(0)
	for i := range s.shares {
		if n := s.shares[i].covered(coverage); n > 0 {
			covered += n
			outcomes = append(outcomes, s.shares[i].outcome)
		}
	}
	return outcomes, covered < Buckets || known != isHashed || int(s.by) >= r.b.model.declared, s.kind() + ": no part is covered", known == isHashed && int(s.by) < r.b.model.declared
}

// isShareUnknown reports whether a split is guarded, and its rollout's share not known.
func (r *Replay) isShareUnknown(s *split) bool {
	return s.guarded && s.rollout >= 0 && r.slot(s.rollout) != isKnown
}

// kind is what messages call a split.
func (s *split) kind() string {
	if s.ramp != nil {
		return "ramp"
	}
	return "split"
}

func (r *Replay) problem(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(r.problems, text) {
		r.problems = append(r.problems, text)
	}
}

// appendSeen appends the value that a failing condition was compared with.
func (r *Replay) appendSeen(a *atom) []byte {
	m := r.b.model
	switch {
	case a.op == atomConfig:
		return []byte("another value of " + a.more.config.Table.Name())
	case a.op == atomEither:
		return []byte("none of them")
	case m.isSegment(a.slot):
		return []byte(m.slotName(a.slot) + " otherwise")
	case a.slot != m.nowSlot() && r.slot(a.slot) != isKnown:
		return []byte("a value that is " + r.slot(a.slot).reason())
	}
	return r.b.appendValue(nil, a.slot)
}
