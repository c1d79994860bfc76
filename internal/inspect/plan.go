package inspect

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
	"github.com/valyala/fastjson"
)

// Planner works out what new definitions would have answered to recorded decisions. It
// compares answers as callers have them: the value of a configuration, however it was
// picked, the variant of a prompt, and of an endpoint the variants of its prompt and its
// own. The same variant with another content is another version, and no other decision.
//
// It replays the new tables by the evidence that the old ones left (rules.Transfer), and
// never guesses: where several answers are possible, of which one is the recorded one, a
// decision is not decided. Definitions that are the same in both sets, with all that they
// ask, answer the same.
//
// A Planner is not safe for concurrent use.
type Planner struct {
	old           func(revision string) (*definition.Snapshot, error)
	against, next *definition.Snapshot
	options       PlanOptions
	pasts         map[pastKey]*past
	subjects      map[*definition.Definition]*subject
	rows          map[*rules.Table]map[string]int // by their ids
	replayed      map[replayedKey]*replayed
	decided       map[string]verdict // by what a decision rests on
	size          int                // of decided, in bytes
	ids           uint32             // of replayed
	key           []byte             // reused
	inputs, whole fastjson.Parser
	seen          []rules.RowEvidence // reused
	tally
}

// PlanOptions are the options of a Planner.
type PlanOptions struct {
	// Hash makes the hashes of values as records have them, as trace.Hasher does. Without
	// it, a hash may be of any value.
	Hash rules.HashFunc
	// Cost returns what a call of a model costs in dollars; ok is false if it has no price.
	Cost func(provider, model string, u *providers.Usage) (dollars float64, ok bool)
	// Witnesses is how many traces are named of each change; 0 means 3.
	Witnesses int
	// replayAll replays definitions that are the same, too.
	replayAll bool
}

// The ceilings of what a Planner remembers. Beyond one it forgets all, and decides again.
const (
	maxPlanned      = 64 << 20 // bytes of decisions, of which equal ones are decided once
	maxPlannedPasts = 8        // revisions that decided
	maxPlannedNames = 10_000   // names of definitions, which callers of an alias with a star choose
	verdictSize     = 256      // bytes of a decision beside what it depends on, about
)

// past is a revision that decided.
type past struct {
	hash          rules.HashFunc // nil: hashes are compared with no value
	s             *definition.Snapshot
	missing       string                          // why there is none
	next, against *rules.Transfer                 // to the sets that are compared; against is nil where that is the record
	self          *rules.Transfer                 // to itself, of reworded
	alike         map[*definition.Definition]bool // of Planner.alike
}

type replayedKey struct {
	pastKey
	kind, key, name string
}

// pastKey is a revision with what its traces have of values.
type pastKey struct {
	revision string
	foreign  bool // see Traced.ForeignHashes
}

// replayed is a definition as a revision had it, with what stands for it in the sets that
// are compared.
type replayed struct {
	id              uint32
	past            *past
	old, base, next *subject
	same            bool     // base and next can't differ
	timed           bool     // whether the answer depends on the instant
	configs         []string // that variables take from, and that may answer otherwise
	counts          *PlanDefinition
}

// verdict is what became of a decision.
type verdict struct {
	class  planClass
	change *PlanChange // of changed and version
	doubt              // of undecided
	units  []unitFate  // by split of the trace; nil: all the same, or undecided with the answer
	shift  *PlanModel
}

// doubt is why a decision is not decided: the field that would tell, or "", and what would
// have later traces tell, or "".
type doubt struct{ field, reason, remedy string }

func undecided(field, reason string) verdict {
	return verdict{class: planUndecided, doubt: doubt{field: field, reason: reason}}
}

type planClass uint8

const (
	planSame planClass = iota
	planVersion
	planChanged
	planUndecided
)

// NewPlanner returns a planner that compares the answers of next with the recorded ones,
// or if against is not nil, with what that one would have answered. old gives the
// definitions of a revision, which say what its records mean.
func NewPlanner(old func(revision string) (*definition.Snapshot, error), against, next *definition.Snapshot, o PlanOptions) *Planner {
	o.Witnesses = cmp.Or(o.Witnesses, 3)
	return &Planner{old: old, against: against, next: next, options: o, pasts: make(map[pastKey]*past), subjects: make(map[*definition.Definition]*subject), rows: make(map[*rules.Table]map[string]int),
		replayed: make(map[replayedKey]*replayed), decided: make(map[string]verdict), tally: newTally()}
}

// Add adds a recorded decision that stands for weight equal ones.
func (p *Planner) Add(t *Traced, weight int64) error {
	if weight < 1 {
		return fmt.Errorf("a decision must count at least once, this is %d", weight)
	}
	if strings.HasPrefix(t.APIKey, trace.ConsoleKey) {
		p.leftOut++
		return nil
	}
	d := p.definition(t)
	v := p.verdict(d, t)
	own, rest, apart := weight, int64(0), doubt{}
	if weight > 1 && v.class != planUndecided && !d.same {
		if apart = p.counted(d, t); apart.reason != "" {
			own, rest = 1, weight-1
		}
	}
	p.count(d, t, v, own, rest)
	if rest > 0 {
		p.doubts[apart] += rest
	}
	p.see(t)
	if v.change != nil {
		p.witness(d, t, v.change, own)
	}
	if v.shift != nil {
		cost := p.options.Cost
		if d.past.against != nil && !slices.Contains(strings.Split(v.shift.Old, orModel), t.Provider+"/"+t.Model) {
			cost = nil // what was recorded is of another model
		}
		v.shift.add(t, own, cost)
	}
	return nil
}

// counted returns why the answers that were counted on a trace may become others than its
// own does, or nothing. Those of a unit are taken to rest on what the unit sent first.
// Without one they have only the row in common.
func (p *Planner) counted(d *replayed, t *Traced) doubt {
	fixed := func(s *subject, to *rules.Transfer) bool {
		return s == nil || to.Refuses() == "" && !slices.ContainsFunc(s.tables, func(t *rules.Table) bool { return len(t.Rows()) > 0 })
	}
	if t.Reason == rules.Split.String() || len(d.configs) == 0 && fixed(d.next, d.past.next) && (d.past.against == nil || fixed(d.base, d.past.against)) {
		return doubt{}
	}
	unit := d.past.s.Model.Unit()
	if unit == "" {
		return doubt{"unit", "counted on a trace without a unit", "unit: FIELD"}
	}
	if inputs, err := p.inputs.ParseBytes(t.Inputs); err == nil && inputs.Get(unit) != nil {
		return doubt{}
	}
	return doubt{unit, "counted on a trace without this unit", ""}
}

// definition finds the definition of a trace.
func (p *Planner) definition(t *Traced) *replayed {
	k := replayedKey{pastKey{t.Revision, t.ForeignHashes}, t.Kind, t.Key, t.Key}
	for _, note := range t.Notes {
		if name, ok := strings.CutPrefix(note, "asked as "); ok {
			k.name = name
		}
	}
	if d := p.replayed[k]; d != nil {
		return d
	}
	if len(p.replayed) >= maxPlannedNames {
		clear(p.replayed)
	}
	p.ids++
	d := &replayed{id: p.ids, past: p.past(k.pastKey), counts: p.of(t.Kind, t.Key)}
	p.replayed[k] = d // after past, which may forget all
	named := kind.Named(t.Kind)
	if named == nil || d.past.s == nil {
		return d
	}
	if d.old = p.subject(d.past.s, d.past.s.Find(named, t.Key)); d.old == nil {
		return d
	}
	d.base, d.next = d.old, p.subject(p.next, p.next.Named(named, k.name))
	if d.past.against != nil {
		d.base = p.subject(p.against, p.against.Named(named, k.name))
	}
	for _, s := range []*subject{d.old, d.base, d.next} {
		d.timed = d.timed || s != nil && slices.ContainsFunc(s.tables, (*rules.Table).HasSchedule)
	}
	if d.base == nil || d.next == nil {
		return d
	}
	d.same = !p.options.replayAll && p.alike(d.past, d.base.d, d.next.d)
	if d.base.prompt != nil {
		for _, u := range uses(p.base(d.past), &d.base.prompt.Definition) {
			if u.As == "variable" && !p.alike(d.past, p.base(d.past).Find(kind.RemoteConfig, u.Key), p.next.Find(kind.RemoteConfig, u.Key)) {
				d.configs = append(d.configs, u.Key)
			}
		}
	}
	return d
}

// tables returns the tables that answered.
func (d *replayed) tables() []*rules.Table {
	if d.old == nil {
		return nil
	}
	return d.old.tables
}

// base returns the set that the new one is compared with.
func (p *Planner) base(past *past) *definition.Snapshot {
	if past.against == nil {
		return past.s
	}
	return p.against
}

// past returns a revision.
func (p *Planner) past(k pastKey) *past {
	if found := p.pasts[k]; found != nil {
		return found
	}
	if len(p.pasts) >= maxPlannedPasts {
		clear(p.pasts)
		clear(p.replayed)
		clear(p.subjects)
		clear(p.rows)
	}
	found := &past{alike: make(map[*definition.Definition]bool), hash: p.options.Hash}
	if k.foreign {
		found.hash = nil
	}
	p.pasts[k] = found
	s, err := p.old(k.revision)
	switch {
	case err != nil:
		found.missing = err.Error()
		return found
	case s == nil:
		found.missing = NoRevision(k.revision)
		return found
	}
	found.s = s
	tables := tablesOf(s)
	to := func(s *definition.Snapshot) *rules.Transfer {
		return rules.NewTransfer(found.s.Model, s.Model, slices.Concat(tables, tablesOf(s)), found.hash)
	}
	found.next = to(p.next)
	if p.against != nil && p.against.Revision != k.revision { // of its own answers, the record is sure
		found.against = to(p.against)
	}
	return found
}

// tablesOf returns all tables of a workspace.
func tablesOf(s *definition.Snapshot) []*rules.Table {
	var tables []*rules.Table
	for _, d := range s.Definitions {
		if t := d.Table(); t != nil {
			tables = append(tables, t)
		}
	}
	return tables
}

// alike reports whether a definition of the base answers as one of the new set does.
func (p *Planner) alike(past *past, a, b *definition.Definition) bool {
	if a == nil || b == nil || a.Version != b.Version || a.Key != b.Key {
		return false
	}
	alike, known := past.alike[a]
	if known {
		return alike
	}
	base := p.base(past)
	alike = a.Table() == nil || past.next.Alike(b.Table()) && (past.against == nil || past.against.Alike(a.Table()))
	alike = alike && nodeText(base.DataModel.Get("timezone")) == nodeText(p.next.DataModel.Get("timezone"))
	for _, u := range uses(base, a) { // of which a version has only the keys
		k := kind.Named(u.Kind)
		alike = alike && p.alike(past, base.Find(k, u.Key), p.next.Find(k, u.Key))
	}
	past.alike[a] = alike
	return alike
}

// verdict decides a decision, or finds an equal one.
func (p *Planner) verdict(d *replayed, t *Traced) verdict {
	switch {
	case d.past.missing != "":
		return undecided("", d.past.missing)
	case d.old == nil:
		return undecided("", "its revision has no such definition")
	case t.Reason == "" || t.Unreadable != "":
		return undecided("", "the trace has no decision that can be read")
	case d.same:
		return verdict{}
	case d.timed:
		return p.decide(d, t) // no other is at the same instant
	}
	p.key = d.appendKey(p.key[:0], t)
	if v, ok := p.decided[string(p.key)]; ok {
		return v
	}
	v := p.decide(d, t)
	if p.size += len(p.key) + verdictSize; p.size > maxPlanned {
		clear(p.decided)
		p.size = len(p.key) + verdictSize
	}
	p.decided[string(p.key)] = v
	return v
}

// appendKey appends what the verdict on a trace depends on.
func (d *replayed) appendKey(key []byte, t *Traced) []byte {
	key = binary.LittleEndian.AppendUint32(key, d.id)
	if noContext(t) {
		key = append(key, 1)
	}
	add := func(texts ...string) {
		for _, text := range texts {
			key = append(append(key, text...), 0)
		}
	}
	add(t.Reason, t.Row, t.Arm, t.EndpointVariant, t.EndpointRow, namedVariant(t))
	for i := range t.Splits {
		s := &t.Splits[i]
		add(s.Experiment.Definition, s.Experiment.Rule, s.Experiment.Salt, s.Arm)
		if s.Bucket != nil {
			key = binary.LittleEndian.AppendUint32(key, *s.Bucket)
		}
	}
	if len(t.Read) > 0 {
		add(slices.Sorted(maps.Keys(t.Read))...)
	}
	key = append(append(append(key, 0), t.Inputs...), 0)
	return append(key, t.Context...)
}

func noContext(t *Traced) bool {
	return t.Reason == rules.NoContext.String() || slices.Contains(t.Notes, rules.NoteNoContext)
}

// namedVariant returns the variant that the caller named, or "".
func namedVariant(t *Traced) string {
	for _, note := range t.Notes {
		if name, ok := strings.CutPrefix(note, trace.NoteVariant); ok {
			return name
		}
	}
	return ""
}

// decide compares the answers that the two sets give by the evidence of a trace.
func (p *Planner) decide(d *replayed, t *Traced) verdict {
	e, missing := p.evidence(d, t)
	if missing != "" {
		return undecided("", missing)
	}
	field := d.past.next.Refuses()
	if d.past.against != nil {
		field = cmp.Or(field, d.past.against.Refuses())
	}
	if field != "" && e.Context == nil && !e.NoContext {
		return verdict{class: planUndecided, doubt: doubt{field, "may refuse the context, which was not kept", "log: content"}}
	}
	base := answers{}
	switch a, ok := p.recorded(d.old, t); {
	case d.past.against != nil:
		base = d.answers(d.base, d.past.against, e, t)
	case !ok:
		return undecided("", "the revision has no such row or arm as was recorded")
	default:
		base.list = []answer{a}
	}
	next := d.answers(d.next, d.past.next, e, t)
	if len(next.list) == 0 || len(base.list) == 0 {
		return undecided("", cmp.Or(base.odd, next.odd, "no answer is as recorded"))
	}
	reworded := p.reworded(d, t, e, base, next)
	var same, version, changed bool
	for _, a := range base.list {
		for _, b := range next.list {
			changed = changed || a.value != b.value
			version = version || a.value == b.value && (a.content != b.content || reworded)
			same = same || a.value == b.value && a.content == b.content && !reworded
		}
	}
	v := verdict{units: fatesOf(d, base, next, t)}
	switch {
	case changed && !same && !version:
		v.class, v.change = planChanged, p.change(d.counts, base.side(), next.side(), false)
	case version && !same && !changed:
		v.class, v.change = planVersion, p.change(d.counts, base.side(), next.side(), true)
	case changed || version:
		v.class = planUndecided
		v.doubt = doubtOf(next, base)
		return v
	}
	if d.old.endpoint != nil { // others call no model
		v.shift = p.shift(base, next)
	}
	return v
}

// reworded reports whether a configuration from which a variable takes a text has another
// value in the new set, or may have one.
func (p *Planner) reworded(d *replayed, t *Traced, e rules.Evidence, base, next answers) bool {
	for _, key := range d.configs {
		is := p.next.RemoteConfigs[key]
		if t.Read[kind.RemoteConfig.Folder+"/"+key] == "" || next.replay == nil {
			continue
		}
		if base.replay == nil {
			if d.past.self == nil {
				d.past.self = rules.NewTransfer(d.past.s.Model, d.past.s.Model, tablesOf(d.past.s), d.past.hash)
			}
			base.replay, _ = d.past.self.Replay(e)
		}
		if is == nil || base.replay == nil {
			return true
		}
		was := p.base(d.past).RemoteConfigs[key]
		from, to := base.replay.Table(was.Table()).Possible, next.replay.Table(is.Table()).Possible
		if len(from)+len(to) > 2 || p.subject(p.base(d.past), &was.Definition).valueOf(from[0]) != p.subject(p.next, &is.Definition).valueOf(to[0]) {
			return true
		}
	}
	return false
}

// evidence returns what a trace says of the context, or what it misses.
func (p *Planner) evidence(d *replayed, t *Traced) (e rules.Evidence, missing string) {
	e = rules.Evidence{At: t.Time, NoContext: noContext(t), Tables: d.old.tables, Rows: p.seen[:0]}
	var err error
	if len(t.Inputs) > 0 && string(t.Inputs) != "null" {
		if e.Inputs, err = p.inputs.ParseBytes(t.Inputs); err != nil {
			return e, "inputs is no JSON"
		}
	}
	if len(t.Context) > 0 && string(t.Context) != "null" {
		// A context that was cut is no whole JSON, and is not used.
		if e.Context, err = p.whole.ParseBytes(t.Context); err != nil || e.Context.Type() != fastjson.TypeObject {
			e.Context = nil
		}
	}
	for name := range t.Read {
		if c := d.past.s.RemoteConfigs[strings.TrimPrefix(name, kind.RemoteConfig.Folder+"/")]; c != nil {
			e.Tables = append(slices.Clip(e.Tables), c.Table())
		}
	}
	for i := range t.Splits {
		s := &t.Splits[i]
		for _, table := range e.Tables {
			if row := p.row(table, s.Experiment.Rule); row >= 0 && s.Bucket != nil && table.Name() == s.Experiment.Definition && table.Salt(row) == s.Experiment.Salt {
				e.Rows = append(e.Rows, rules.RowEvidence{Table: table, Row: row, Bucket: *s.Bucket})
			}
		}
	}
	for i, id := range []string{t.Row, t.EndpointRow}[:len(d.old.tables)] {
		if row := p.row(d.old.tables[i], id); id == "" || row >= 0 {
			e.Rows = append(e.Rows, rules.RowEvidence{Table: d.old.tables[i], Row: row, Decided: true})
		}
	}
	p.seen = e.Rows
	if e.Inputs == nil && !e.NoContext {
		e.Tables = nil // nothing was recorded: a field without a value may have had one
	}
	return e, ""
}

// row returns the index of a row, or -1.
func (p *Planner) row(t *rules.Table, id string) int {
	rows := p.rows[t]
	if rows == nil {
		rows = make(map[string]int)
		for i, row := range t.Rows() {
			rows[row.ID] = i
		}
		p.rows[t] = rows
	}
	if row, ok := rows[id]; ok {
		return row
	}
	return -1
}

// answers are the answers that are possible by a trace, or why none can be told.
type answers struct {
	odd    string
	list   []answer
	replay *rules.Replay
	tables []*rules.Table
}

// maxPossible is how many combinations of possible decisions are looked at.
const maxPossible = 1000

// answers replays a definition; s is nil if the set has none.
func (d *replayed) answers(s *subject, transfer *rules.Transfer, e rules.Evidence, t *Traced) answers {
	if s == nil {
		return answers{list: []answer{{gone: "no definition has this name", value: "removed"}}}
	}
	r, err := transfer.Replay(e)
	if err != nil {
		return answers{odd: "the trace contradicts the data model of its revision"}
	}
	if r.Refused() != nil {
		return answers{list: []answer{{gone: "the data model refuses the context", value: "refused"}}}
	}
	a := answers{list: []answer{{}}, replay: r, tables: s.tables}
	for _, table := range a.tables {
		var list []answer
		for _, before := range a.list {
			for i, decision := range r.Table(table).Possible {
				if len(list) == maxPossible {
					return answers{odd: "too many answers are possible"}
				}
				list = append(list, answer{decisions: append(slices.Clip(before.decisions), decision), at: append(slices.Clip(before.at), i)})
			}
		}
		a.list = list
	}
	for i := range a.list {
		s.complete(&a.list[i], namedVariant(t))
	}
	return a
}

// doubtOf returns the first field because of which one of the answers may differ from
// another, and why it is not known.
func doubtOf(next, base answers) doubt {
	for _, of := range []answers{next, base} {
		last := of.list[len(of.list)-1]
		for _, o := range of.list {
			for i, table := range of.tables {
				if o.value == last.value && o.content == last.content || of.replay == nil {
					break
				}
				if found := of.replay.Doubt(table, o.at[i]); found != nil {
					return doubt{found.Unseen, found.Reason, found.Remedy}
				}
			}
		}
	}
	return doubt{reason: "several answers are possible"}
}
