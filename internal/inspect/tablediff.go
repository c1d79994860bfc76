package inspect

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/rules"
)

// The bounds of the search for contexts that get another answer.
const (
	maxEvaluations = 200_000 // contexts tried for one definition
	maxProbes      = 20_000  // of them where only the data model changed
	maxAnswers     = 100     // changes reported for one definition
	maxUnits       = 256     // callers tried where a split divides them
	maxMatched     = 90_000  // comparisons of a row with one of the other version
	maxBlockers    = 40      // rows above a pair that its context must not match
	maxPairs       = 200_000 // pairs of rows of which one has changed
	pairBudget     = 2_000_000
)

// tableDiff searches the contexts that two versions of a table answer
// differently. It asks a rules.Finder for contexts that meet a row of the old
// version and a row of the new version if one of the two has changed. It evaluates
// each context on both sides.
//
// For example, a row for plan free is added as the second:
//
//	old             new
//	1  pro   a      1  pro   a
//	                2  free  c
//	2  any   b      3  any   b
//
// The only row that has changed is the new 2. No context meets it and the old 1;
// {plan: free} meets it and the old 2: the answers are b and c. That the old
// default answers what the new 2 does is not possible either, as the old 2 would
// have to fail.
type tableDiff struct {
	old, new side
	units    []string // fields by which splits divide callers
	rollouts []string // fields with the shares of guarded splits
	now      time.Time
	noFields []byte // a context in which every field is missing

	models changedModel
	// The rows of the finders are the old rows, the new rows, and the probes. The
	// first finder reads them by the later data model. The second reads them by the
	// earlier data model, and is nil if both are the same.
	finders [2]*rules.Finder
	probes  int

	evaluations int
	exhausted   bool            // not all was tried
	affected    bool            // the data model gives rows another meaning
	unsure      bool            // only untried callers could get another answer
	found       map[string]bool // pairs of answers
	changes     []AnswerChange
}

// side is one version of a table.
type side struct {
	model    *rules.Model
	joint    *rules.Model // model with the gateway's fields that the other version reads, too
	table    *rules.Table
	value    func(rules.Decision) []byte
	rows     []rowSource
	def      string // the default answer
	prefix   string // of the texts of all rows, where their values depend on more
	texts    []string
	divided  []bool // rows that divide their callers
	affected []bool // rows that may have another meaning in the other version
	asking   bool   // whether a row asks for another configuration's value
	last     rules.Decision

	parser fastjson.Parser
	bound  rules.Binding
}

// newTableDiff prepares the comparison. It returns nil for a definition without a
// table.
func newTableDiff(before, after *definition.Snapshot, old, new *definition.Definition, models changedModel, configs bool, now time.Time) *tableDiff {
	if old.Table() == nil && new.Table() == nil {
		return nil
	}
	d := &tableDiff{now: now, models: models, found: make(map[string]bool), changes: []AnswerChange{}}
	d.old.take(before.Model, old)
	d.new.take(after.Model, new)
	configs = configs || models.reads(d.old.table.Fields()) || models.reads(d.new.table.Fields()) || len(models.segments) > 0
	oldMarked, newMarked := d.old.mark("old", models, configs), d.new.mark("new", models, configs)
	d.affected = oldMarked || newMarked
	d.noFields = []byte(`{"":null}`)
	if len(after.Model.FieldNames()) > 0 {
		d.noFields = []byte(after.Model.ContextJSON([]string{"null"}))
	}
	if !d.sameRows() {
		d.prepare(before, after)
	}
	return d
}

// take takes a version's table. For an endpoint without variants it is a table without
// rows, whose default is no variant.
func (s *side) take(model *rules.Model, d *definition.Definition) {
	s.model, s.joint, s.table = model, model, d.Table()
	if s.table == nil {
		s.table = emptyTable(model)
		s.value = func(rules.Decision) []byte { return nil }
		return
	}
	s.value = d.Answer
	s.def = string(d.Answer(rules.Decision{Outcome: -1}))
	s.rows = readRows(d.Node())
	s.prefix = nodeText(d.Node().Get("type")) + ";"
	if merge := d.Node().Get("merge"); !merge.IsNull() {
		s.prefix += s.def + ";" // rows only hold the difference from the default
	}
}

// mark gives every row a text. Rows of the two versions with the same text are
// the same row. A row whose cells may have another meaning in the other version
// gets a text of its own; mark reports whether the data model gives one to a row.
func (s *side) mark(version string, models changedModel, configs bool) bool {
	s.divided, s.affected = make([]bool, len(s.rows)), make([]bool, len(s.rows))
	marked := false
	for i := range s.rows {
		r := &s.rows[i]
		s.divided[i] = len(r.units()) > 0
		affected := models.timezone && (len(r.active) > 0 || r.ramp != nil)
		for _, cell := range r.cells {
			affected = affected || models.affects(cell, configs)
			s.asking = s.asking || cell.Key.Text == "config"
		}
		for _, unit := range r.units() {
			affected = affected || models.all || models.fields[unit]
		}
		text := s.prefix + r.text
		if affected {
			text += version
			s.affected[i] = true
			marked = marked || models.any
		}
		s.texts = append(s.texts, text)
	}
	return marked
}

// sameRows reports whether both versions have the same rows in the same order.
func (d *tableDiff) sameRows() bool {
	return d.old.def == d.new.def && d.old.prefix == d.new.prefix && slices.Equal(d.old.texts, d.new.texts)
}

// run searches. undecided reports whether there may be further contexts.
func (d *tableDiff) run() (changes []AnswerChange, undecided bool) {
	d.compare(nil, time.Time{})
	if d.sameRows() {
		return nil, false
	}
	if d.finders[0] == nil {
		return d.changes, true
	}
	undecided = !d.pairs() || d.affected
	if d.affected {
		d.probe()
	}
	if len(d.changes) == 0 {
		// A change of a split may have an effect that no example shows.
		return nil, undecided || d.unsure || d.splitsDiffer()
	}
	return d.changes, undecided || d.exhausted
}

// splitsDiffer reports whether a row that divides its callers is not in both
// versions.
func (d *tableDiff) splitsDiffer() bool {
	old, new := d.changedRows()
	return slices.ContainsFunc(old, d.old.divides) || slices.ContainsFunc(new, d.new.divides)
}

// divides reports whether a row, or the default for -1, divides its callers.
func (s *side) divides(row int) bool { return row >= 0 && s.divided[row] }

// context returns a context with values of fields, at the places where the later
// data model reads them, or the earlier one if it alone declares them all.
func (d *tableDiff) context(values map[string]string) []byte {
	if len(values) == 0 {
		return d.noFields
	}
	var context []byte
	for _, s := range []*side{&d.old, &d.new} {
		names := append(s.joint.FieldNames(), s.joint.GatewayNames()...)
		n, members := 0, make([]string, len(names))
		for i, name := range names {
			if members[i] = values[name]; members[i] != "" {
				n++
			}
		}
		if n == len(values) || context == nil {
			context = []byte(s.joint.ContextJSON(members))
		}
	}
	return context
}

// compare evaluates a context on both sides. It keeps the context if the answers
// differ and no other example shows the same rows and answers.
func (d *tableDiff) compare(context []byte, at time.Time) {
	if d.evaluations++; d.evaluations > maxEvaluations || len(d.changes) == maxAnswers {
		d.exhausted = true
		return
	}
	a, b := d.old.answer(context, at), d.new.answer(context, at)
	if a.Refused == b.Refused && sameValue(a.Value, b.Value) {
		return
	}
	id := a.Row + "\x00" + b.Row + "\x00" + string(a.Value) + "\x00" + string(b.Value) + "\x00" + a.Refused + "\x00" + b.Refused
	if d.found[id] {
		return
	}
	d.found[id] = true
	c := AnswerChange{Context: json.RawMessage("null"), Old: a, New: b}
	if context != nil {
		c.Context = context
	}
	if !at.IsZero() && (d.old.table.HasSchedule() || d.new.table.HasSchedule()) {
		c.At = &at
	}
	d.changes = append(d.changes, c)
}

// answer evaluates a context on one side. Nil stands for a request without a context.
func (s *side) answer(context []byte, at time.Time) Side {
	var v *fastjson.Value
	if context != nil {
		v, _ = s.parser.ParseBytes(context) // its parts are valid
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
