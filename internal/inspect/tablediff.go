package inspect

import (
	"encoding/json"
	"math/bits"
	"slices"
	"time"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
)

// The bounds of the search for contexts that get another answer.
const (
	maxEvaluations = 200_000 // contexts tried for one definition
	maxAffected    = 20_000  // of one that only the data model may have changed
	maxSteps       = 2_000_000
	maxAnswers     = 100     // changes reported for one definition
	maxUnits       = 256     // callers tried where a split divides them
	maxListPairs   = 8       // elements of lists of which pairs are tried
	maxMatched     = 300     // rows of either version that are matched with the other's
	maxBlockers    = 40      // rows above that are kept out of the way of two
	maxPairs       = 200_000 // pairs of rows of which one has changed
	pairBudget     = 2_000_000
)

// tableDiff searches the contexts that two versions of a table answer
// differently. The cells of both versions divide the values of every field into
// classes that no cell tells apart. The search goes through the combinations of
// classes. It leaves out a combination if the rows that still match are the same
// in both versions, in the same order. Each context that it finds is proved by
// evaluating it on both sides.
//
// For example, a row for plan free is added as the second:
//
//	old             new
//	1  pro   a      1  pro   a
//	                2  free  c
//	2  any   b      3  any   b
//
// The classes of plan are pro, free, and any other value. pro and any other
// value match the same rows on both sides and are left out. free matches b in
// the old version, and c and then b in the new one: it is evaluated, and the
// answers are b and c.
type tableDiff struct {
	old, new side
	axes     []axis
	units    []string // fields by which splits divide callers
	now      time.Time
	noFields []byte // a context in which every field is missing

	models changedModel
	joint  *rules.Table // the rows of both versions, the old ones first

	evaluations, steps int
	exhausted          bool            // not all was tried
	inexact            bool            // the classes are not all there is
	affected           bool            // the data model gives rows another meaning
	unsure             bool            // only callers that were not tried could tell
	seen               map[string]bool // of search states
	found              map[string]bool // of answers
	changes            []AnswerChange
}

// side is one version of a table.
type side struct {
	model  *rules.Model
	fields []string // of the model, and of the gateway
	table  *rules.Table
	value  func(rules.Decision) json.RawMessage
	rows   []rowSource
	def    string // the default answer
	prefix string // of the texts of all rows, where their values depend on more
	texts  []string
	// Sets of rows: indirect ask for segments, computed fields or other
	// configurations; divided divide their callers; ramped do so by shares that
	// change with the time; affected have another meaning in the other data
	// model.
	indirect, divided, ramped, affected []uint64
	last                                rules.Decision

	parser fastjson.Parser
	bound  rules.Binding
}

// newTableDiff prepares the comparison. It returns nil for a definition without a
// table.
func newTableDiff(before, after *definition.Snapshot, kind trace.Kind, key string, models changedModel, configs bool, now time.Time) *tableDiff {
	if tableOf(before, kind, key) == nil && tableOf(after, kind, key) == nil {
		return nil
	}
	d := &tableDiff{now: now, models: models, seen: make(map[string]bool), found: make(map[string]bool), changes: []AnswerChange{}}
	if !d.old.take(before, kind, key) || !d.new.take(after, kind, key) {
		return nil
	}
	if !d.old.read(before, kind, key) || !d.new.read(after, kind, key) {
		d.exhausted = true // a file has changed since it was loaded
		return d
	}
	configs = configs || models.reads(d.old.table.Fields()) || models.reads(d.new.table.Fields()) || len(models.segments) > 0
	old, new := d.old.mark("old", models, configs), d.new.mark("new", models, configs)
	d.affected = old || new
	d.noFields = []byte(`{"":null}`)
	if len(after.Model.FieldNames()) > 0 {
		d.noFields = []byte(after.Model.ContextJSON([]string{"null"}))
	}
	if !d.sameRows(allRows(len(d.old.rows)), allRows(len(d.new.rows))) {
		d.prepare(before, after, models)
	}
	return d
}

// take finds a version's table.
func (s *side) take(snapshot *definition.Snapshot, kind trace.Kind, key string) bool {
	s.model, s.fields = snapshot.Model, append(snapshot.Model.FieldNames(), snapshot.Model.GatewayNames()...)
	if s.table = tableOf(snapshot, kind, key); s.table == nil {
		return kind == trace.KindEndpoint && s.takeUnvaried()
	}
	if kind == trace.KindEndpoint {
		e := snapshot.Endpoints[key]
		s.def = e.Default().Key
		s.value = func(d rules.Decision) json.RawMessage { return json.RawMessage(quoteJSON(e.Policy(d).Key)) }
		return true
	}
	if kind == trace.KindPrompt {
		p := snapshot.Prompts[key]
		s.def = p.Default().Key
		s.value = func(rules.Decision) json.RawMessage {
			v, _ := p.Select(&s.bound)
			return json.RawMessage(quoteJSON(v.Key))
		}
		return true
	}
	c := snapshot.RemoteConfigs[key]
	s.def = string(c.Default())
	s.value = func(rules.Decision) json.RawMessage {
		v, _ := c.Evaluate(&s.bound)
		return v
	}
	return true
}

// takeUnvaried stands for the table of an endpoint without variants: no row, and no
// variant as the default.
func (s *side) takeUnvaried() bool {
	s.table = emptyTable(s.model)
	s.value = func(rules.Decision) json.RawMessage { return nil }
	return true
}

// read reads the rows as the file has them.
func (s *side) read(snapshot *definition.Snapshot, kind trace.Kind, key string) bool {
	def, rows, ok := readRows(definitions(snapshot, kind)[key])
	if !ok || len(rows) != len(s.table.Rows()) {
		return false
	}
	s.rows = rows
	s.prefix = nodeText(def.Get("type")) + ";"
	if merge := def.Get("merge"); !merge.IsNull() {
		s.prefix += s.def + ";" // rows only hold the difference from the default
	}
	return true
}

// mark gives every row a text. Rows of the two versions with the same text are
// the same row. A row whose cells may have another meaning in the other version
// gets a text of its own; mark reports whether there is such a row.
func (s *side) mark(version string, models changedModel, configs bool) bool {
	words := (len(s.rows) + 63) / 64
	s.indirect, s.divided = make([]uint64, words), make([]uint64, words)
	s.ramped, s.affected = make([]uint64, words), make([]uint64, words)
	marked := false
	for i := range s.rows {
		r := &s.rows[i]
		bit := uint64(1) << (i & 63)
		if len(r.units()) > 0 {
			s.divided[i>>6] |= bit
		}
		if r.ramp != nil {
			s.ramped[i>>6] |= bit
		}
		if slices.ContainsFunc(r.cells, func(c document.Member) bool { return !slices.Contains(s.fields, c.Key.Text) }) {
			s.indirect[i>>6] |= bit
		}
		text := s.prefix + r.text
		affected := models.timezone && (len(r.active) > 0 || r.ramp != nil)
		for _, cell := range r.cells {
			affected = affected || models.affects(cell, configs)
		}
		for _, unit := range r.units() {
			affected = affected || models.all || models.fields[unit]
		}
		if affected {
			text += version
			s.affected[i>>6] |= bit
			marked = true
		}
		s.texts = append(s.texts, text)
	}
	return marked
}

// allRows returns a set with a bit for each of n rows.
func allRows(n int) []uint64 {
	words := make([]uint64, (n+63)/64)
	for i := range n {
		words[i>>6] |= 1 << (i & 63)
	}
	return words
}

// sameRows reports whether the sets of both sides hold the same rows in the same
// order.
func (d *tableDiff) sameRows(old, new []uint64) bool {
	if d.old.def != d.new.def || d.old.prefix != d.new.prefix {
		return false
	}
	i, j := nextRow(old, 0), nextRow(new, 0)
	for i >= 0 && j >= 0 {
		if d.old.texts[i] != d.new.texts[j] {
			return false
		}
		i, j = nextRow(old, i+1), nextRow(new, j+1)
	}
	return i < 0 && j < 0
}

// nextRow returns the first row of a set that is not below from, or -1.
func nextRow(words []uint64, from int) int {
	for w := from >> 6; w < len(words); w++ {
		word := words[w]
		if w == from>>6 {
			word &= ^uint64(0) << (from & 63)
		}
		if word != 0 {
			return w<<6 + bits.TrailingZeros64(word)
		}
	}
	return -1
}

// run searches. undecided reports whether there may be other contexts than those
// found.
func (d *tableDiff) run() (changes []AnswerChange, undecided bool) {
	if d.old.rows == nil && d.new.rows == nil && d.exhausted {
		return nil, true
	}
	d.compare(nil, nil, time.Time{})
	old, new := allRows(len(d.old.rows)), allRows(len(d.new.rows))
	if d.sameRows(old, new) {
		return nil, false
	}
	d.search(0, old, new, make([]*axisClass, len(d.axes)))
	d.tryModel()
	undecided = d.exhausted
	if d.joint != nil && (d.exhausted || d.inexact || meets(old, d.old.indirect) || meets(new, d.new.indirect)) {
		undecided = !d.solve()
	}
	if len(d.changes) == 0 {
		// A change of the data model or of a split may have an effect that no
		// example shows.
		return nil, undecided || d.affected || d.unsure || d.splitsDiffer()
	}
	return d.changes, undecided
}

// splitsDiffer reports whether a row that divides its callers is not in both
// versions.
func (d *tableDiff) splitsDiffer() bool {
	old, new := d.changedRows()
	return slices.ContainsFunc(old, func(i int) bool { return hasBit(d.old.divided, i) }) ||
		slices.ContainsFunc(new, func(i int) bool { return hasBit(d.new.divided, i) })
}

func hasBit(words []uint64, i int) bool { return i >= 0 && words[i>>6]>>(i&63)&1 != 0 }

// context returns a context with values of fields, at the places where the later
// data model reads them, or the earlier one if it alone declares them all.
func (d *tableDiff) context(values map[string]string) []byte {
	if len(values) == 0 {
		return d.noFields
	}
	var context []byte
	for _, s := range []*side{&d.old, &d.new} {
		n, members := 0, make([]string, len(s.fields))
		for i, name := range s.fields {
			if members[i] = values[name]; members[i] != "" {
				n++
			}
		}
		if n == len(values) || context == nil {
			context = []byte(s.model.ContextJSON(members))
		}
	}
	return context
}

// compare evaluates a context on both sides. It keeps the context if the answers
// differ and no other example shows the same rows and answers.
func (d *tableDiff) compare(old, new []byte, at time.Time) {
	d.evaluations++
	a, b := d.old.answer(old, at), d.new.answer(new, at)
	if a.Refused == b.Refused && sameValue(a.Value, b.Value) {
		return
	}
	id := a.Row + "\x00" + b.Row + "\x00" + string(a.Value) + "\x00" + string(b.Value) + "\x00" + a.Refused + "\x00" + b.Refused
	if d.found[id] {
		return
	}
	d.found[id] = true
	c := AnswerChange{Context: json.RawMessage("null"), Old: a, New: b}
	if new != nil {
		c.Context = new
	}
	if !at.IsZero() && (d.old.table.HasSchedule() || d.new.table.HasSchedule()) {
		c.At = &at
	}
	d.changes = append(d.changes, c)
}

// answer evaluates a context on one side. Nil is a request without a context.
func (s *side) answer(context []byte, at time.Time) Side {
	var v *fastjson.Value
	if context != nil {
		v, _ = s.parser.ParseBytes(context) // it is made of valid parts
	}
	s.last = rules.Decision{Row: -1, Outcome: -1}
	if err := s.model.Simulate(&s.bound, v, at); err != nil {
		return Side{Refused: err.Error()}
	}
	decision := s.table.Evaluate(&s.bound)
	s.last = decision
	return Side{Row: rowID(s.table, decision), Value: slices.Clone(s.value(decision))}
}

func quoteJSON(s string) string {
	b, _ := json.Marshal(s) // a string can't fail
	return string(b)
}
