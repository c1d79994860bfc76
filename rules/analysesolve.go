package rules

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fastjson"
)

// solver finds contexts that meet some rows and fail others, or proves that
// there are none. It goes through the ways in which segments, alternatives and
// prerequisites can be met. Each way leaves one condition for every field, and
// fields are solved one by one. Every example is proved by evaluating it.
//
// For example, with the segment staff: [ {tags: employee}, {email: "*@acme.com"} ],
// a context that meets the row {segment: staff, tags: not employee} and fails
// the row {plan: pro}:
//
//	goal                way 1                    way 2
//	tags: not employee  tags not employee        tags not employee
//	not plan: pro       plan not pro or missing  the same
//	segment staff       and tags employee:       email ends with @acme.com
//	                    no list meets both
//
// Way 2 leaves {tags: ["a"], email: "@acme.com"}: it is bound, matched with both
// rows, and is the example. If all ways ended as way 1 did, there would be no
// such context.
type solver struct {
	m    *Model
	t    *Table
	now  time.Time
	left *int // steps of the budget

	ways   int  // that were tried for the question
	opaque bool // whether an expression or another table decided against an example
	meet   [][]atom
	fail   [][]atom
	high   bool // whether to prefer high numbers and dates

	// The last example.
	members []string // values of the declared fields
	context string
	at      time.Time
	b       Binding
	parser  fastjson.Parser
}

// newSolver makes a solver for the rows of a table. left bounds its work.
func newSolver(t *Table, now time.Time, left *int) *solver {
	return &solver{m: t.model, t: t, now: now, left: left}
}

// goal is a requirement of a context: to meet a cell, or with negate its
// negation, or, if atom is nil, not to match a row.
type goal struct {
	atom   *atom
	negate bool
	row    []atom
}

// slotCond is the condition on one slot.
type slotCond struct {
	slot int32
	cond cond
}

const (
	// maxQuestion is how many ways are tried for one question.
	maxQuestion = 2000
	// maxNegated is how many rows a prerequisite may have for the solver to
	// make all of them fail, so that its default answers. With more rows it
	// tries contexts without regard to that.
	maxNegated = 16
	// wayCost is the cost of trying a way, in steps, in addition to
	// exampleCost.
	wayCost = 4
	// maxExamples is how many contexts are tried for one way.
	maxExamples = 200
	// exampleCost is what trying a context takes, in steps.
	exampleCost = 30
)

// find looks for a context that meets all rows of meet and none of fail. After
// met, context and at are the example, and b is bound to it.
func (s *solver) find(meet, fail [][]atom) verdict {
	s.ways, s.opaque, s.meet, s.fail = 0, false, meet, fail
	if s.opposed() {
		return empty
	}
	var goals []goal
	for _, row := range meet {
		goals = append(goals, goalsOf(row)...)
	}
	for _, row := range fail {
		goals = append(goals, goal{row: row})
	}
	slices.SortStableFunc(goals, func(a, b goal) int { return a.branches(s.m) - b.branches(s.m) })
	return s.search(goals, nil)
}

// branches returns about how many ways there are to reach a goal. Goals with few
// are reached first.
func (g *goal) branches(m *Model) int {
	switch {
	case g.atom == nil:
		return 2 + len(g.row)
	case g.atom.op == atomConfig:
		return 1000
	case g.atom.op == atomEither:
		return 1 + len(g.atom.more.either)
	case m.isSegment(g.atom.slot):
		return 2 + len(m.segments[int(g.atom.slot)-len(m.fields)].rows)
	}
	return 0
}

// opposed reports whether two conditions on the same configuration accept no
// common value.
func (s *solver) opposed() bool {
	var asked []*Prerequisite
	for _, row := range s.meet {
		for i := range row {
			if row[i].op != atomConfig {
				continue
			}
			p := row[i].more.config
			for _, q := range asked {
				if q.Table != p.Table || p.AcceptDefault && q.AcceptDefault {
					continue
				}
				if !slices.ContainsFunc(p.Accept, q.accepts) {
					return true
				}
			}
			asked = append(asked, p)
		}
	}
	return false
}

// search reaches the goals one after the other, with the conditions so far.
func (s *solver) search(goals []goal, conds []slotCond) verdict {
	if *s.left -= wayCost; *s.left < 0 {
		return open
	}
	if len(goals) == 0 {
		if s.ways++; s.ways > maxQuestion {
			return open
		}
		return s.example(conds)
	}
	g, rest := goals[0], goals[1:]
	if g.atom == nil {
		w := ways{s: s, conds: conds, rest: rest}
		for i := range g.row {
			if w.try(goal{atom: &g.row[i], negate: true}) {
				break
			}
		}
		return w.result
	}
	a := g.atom
	switch {
	case a.op == atomEither:
		w := ways{s: s, conds: conds, rest: rest}
		if g.negate {
			all := make([]goal, len(a.more.either))
			for i := range a.more.either {
				all[i] = goal{atom: &a.more.either[i], negate: true}
			}
			w.try(all...)
			return w.result
		}
		for i := range a.more.either {
			if w.try(goal{atom: &a.more.either[i]}) {
				break
			}
		}
		return w.result
	case a.op == atomConfig:
		return s.config(a.more.config, g.negate, rest, conds)
	case s.m.isSegment(a.slot):
		return s.segment(a, g.negate, rest, conds)
	}
	c := condOf(a)
	if g.negate {
		c = c.not()
	}
	conds, ok := s.with(conds, a.slot, c)
	if !ok {
		return empty
	}
	return s.search(rest, conds)
}

// ways tries one way after the other to reach a goal.
type ways struct {
	s      *solver
	conds  []slotCond
	rest   []goal
	result verdict
}

// try takes the goals of a way before the others. It reports whether that ends
// the search.
func (w *ways) try(first ...goal) bool {
	w.result = max(w.result, w.s.search(slices.Concat(first, w.rest), w.conds))
	return w.result == met || *w.s.left < 0 || w.s.ways > maxQuestion
}

// segment goes through the ways in which a segment holds (one of its rows
// matches) or does not (all of them fail).
func (s *solver) segment(a *atom, negate bool, rest []goal, conds []slotCond) verdict {
	seg := &s.m.segments[int(a.slot)-len(s.m.fields)]
	w := ways{s: s, conds: conds, rest: rest}
	switch in := func(key int64) bool { return (a.op == atomAlways || a.span.lo <= key && key < a.span.hi) != negate }; {
	case in(0) && in(1):
		w.try()
		return w.result
	case in(0):
		all := make([]goal, len(seg.rows))
		for i, row := range seg.rows {
			all[i] = goal{row: row}
		}
		w.try(all...)
		return w.result
	case !in(1):
		return empty
	}
	for _, row := range seg.rows {
		if w.try(goalsOf(row)...) {
			break
		}
	}
	return w.result
}

func goalsOf(row []atom) []goal {
	goals := make([]goal, len(row))
	for i := range row {
		goals[i] = goal{atom: &row[i]}
	}
	return goals
}

// config goes through the rows of another configuration that could give a
// value that is accepted. That rows above them don't match is left to the
// evaluation of the example.
func (s *solver) config(p *Prerequisite, negate bool, rest []goal, conds []slotCond) verdict {
	w := ways{s: s, conds: conds, rest: rest}
	t := p.Table
	for row := range t.rows {
		if !slices.ContainsFunc(t.answers[row].outcomes(), func(k int) bool { return p.accepts(k) != negate }) {
			continue
		}
		if w.try(goalsOf(t.rowAtoms(row))...) {
			return w.result
		}
	}
	if p.AcceptDefault != negate {
		var goals []goal
		for row := range t.rows {
			if t.answers[row].split == nil && len(t.rows) <= maxNegated {
				goals = append(goals, goal{row: t.rowAtoms(row)})
			}
		}
		w.try(goals...)
	}
	return w.result
}

// with adds a condition on a slot, and reports whether that leaves a value. For
// texts and lists, which take more work, it only sees that nothing is left if
// the predicate is never; example decides the others.
func (s *solver) with(conds []slotCond, slot int32, c cond) ([]slotCond, bool) {
	conds = slices.Clone(conds)
	i := slices.IndexFunc(conds, func(c slotCond) bool { return c.slot == slot })
	if i < 0 {
		conds = append(conds, slotCond{slot, c})
		i = len(conds) - 1
	} else {
		conds[i].cond = joinConds(true, []cond{conds[i].cond, c})
	}
	c = conds[i].cond
	if slot == s.m.nowSlot() {
		_, v := s.instantIn(c.pred)
		return conds, v != empty
	}
	f := &s.m.fields[slot]
	if f.program == nil && (f.typ == stringField && f.texts == nil || f.typ == listField) {
		return conds, c.onMissing || c.pred.op != never
	}
	return conds, s.leaves(f, c)
}

// leaves reports whether a condition on a field that is not text leaves a
// value, or none.
func (s *solver) leaves(f *field, c cond) bool {
	if c.onMissing && (f.program != nil || !s.t.insists(f)) {
		return true
	}
	_, v := s.value(f, c.pred)
	return v != empty
}

// example solves the conditions of one way and tries what comes out.
func (s *solver) example(conds []slotCond) verdict {
	at := s.now
	members := make([]string, s.m.declared)
	decided := met
	var computed []int32
	for _, c := range conds {
		switch {
		case c.slot == s.m.nowSlot():
			at, _ = s.instantIn(c.cond.pred)
		case int(c.slot) >= s.m.declared:
			computed = append(computed, c.slot)
		default:
			value, v := s.solve(&s.m.fields[c.slot], c.cond)
			if v == empty {
				return empty
			}
			decided = min(decided, v)
			members[c.slot] = value
		}
	}
	if decided != met {
		return decided
	}
	s.complete(members)
	if s.try(members, at) || len(computed) > 0 && s.guess(computed, conds, members, at) {
		return met
	}
	s.opaque = true
	return open
}

// complete gives a value to the fields without which a context is refused.
func (s *solver) complete(members []string) {
	if s.t.gateway && !isGiven(members[:s.m.sent]) {
		return // a request without a context is not refused
	}
	for i := range members {
		if f := &s.m.fields[i]; s.m.strict && f.required && members[i] == "" {
			members[i], _ = s.value(f, alwaysPred)
		}
	}
}

// try proves an example.
func (s *solver) try(members []string, at time.Time) bool {
	*s.left -= exampleCost
	context := s.t.contextJSON(members)
	v, err := s.parser.Parse(context)
	if err != nil || s.m.Simulate(&s.b, v, at) != nil || !s.t.tries(&s.b) {
		return false
	}
	for _, slot := range s.t.lazy {
		s.b.resolve(slot)
	}
	matches := func(row []atom) bool { return matchAll(row, &s.b) }
	for _, row := range s.meet {
		if !matches(row) {
			return false
		}
	}
	if slices.ContainsFunc(s.fail, matches) {
		return false
	}
	s.members, s.context, s.at = slices.Clone(members), context, at
	return true
}

// literalIn finds the numbers and texts of an expression.
var literalIn = regexp.MustCompile(`-?\d+(?:\.\d+)?|"[^"\\]*"|'[^'\\]*'`)

// guess tries values of the fields that computed fields read, because
// expressions can't be solved. The values are those near the literals of the
// expression: for seats > 50.0 they are 49, 50 and 51, so that both outcomes of
// the comparison occur.
func (s *solver) guess(computed []int32, conds []slotCond, members []string, at time.Time) bool {
	var slots []int32
	var values [][]string
	for _, c := range computed {
		literals := literalIn.FindAllString(s.m.fields[c].source(), -1)
		for _, slot := range s.m.fields[c].reads {
			i := slices.Index(slots, slot)
			if i < 0 {
				i = len(slots)
				slots, values = append(slots, slot), append(values, []string{members[slot]})
			}
			values[i] = append(values[i], s.guesses(&s.m.fields[slot], literals)...)
		}
	}
	for i, slot := range slots {
		c := anyCond
		if j := slices.IndexFunc(conds, func(c slotCond) bool { return c.slot == slot }); j >= 0 {
			c = conds[j].cond
		}
		if value, v := s.value(&s.m.fields[slot], c.pred); v == met {
			values[i] = append(values[i], value)
		}
		slices.Sort(values[i][1:])
		values[i] = slices.Compact(values[i])
		values[i] = slices.DeleteFunc(values[i], func(value string) bool { return !s.meets(slot, value, c) })
		if len(values[i]) == 0 {
			return false
		}
	}
	members = slices.Clone(members)
	at0 := make([]int, len(slots))
	for range maxExamples {
		for i, slot := range slots {
			members[slot] = values[i][at0[i]]
		}
		if s.try(members, at) {
			return true
		}
		if *s.left < 0 {
			return false
		}
		i := 0
		for ; i < len(slots); i++ {
			if at0[i]++; at0[i] < len(values[i]) {
				break
			}
			at0[i] = 0
		}
		if i == len(slots) {
			return false
		}
	}
	return false
}

// guesses returns values of a field near the literals of an expression.
func (s *solver) guesses(f *field, literals []string) []string {
	var out []string
	add := func(c cond) {
		if value, v := s.value(f, c.pred); v == met {
			out = append(out, value)
		}
	}
	add(anyCond)
	switch f.typ {
	case booleanField:
		return []string{"true", "false"}
	case numberField:
		for _, text := range append(literals, "0") {
			n, ok := parseNumber(text)
			if !ok {
				continue
			}
			for _, n := range []float64{n - 1, n, n + 1} {
				add(cond{pred: intPred(intSet{{numberKey(n), numberKey(n) + 1}})})
			}
		}
	case dateField:
		for _, text := range literals {
			if t, _, ok := s.m.instant(strings.Trim(text, `"'`)); ok {
				for _, k := range []int64{dateKey(t) - 1, dateKey(t), dateKey(t) + 1} {
					add(cond{pred: intPred(intSet{{k, k + 1}})})
				}
			}
		}
	default:
		for _, text := range literals {
			if text[0] != '"' && text[0] != '\'' {
				continue
			}
			if key, ok := f.textKey(text[1 : len(text)-1]); ok {
				p := strPred(strSet{point(key)})
				if f.typ == listField {
					p = somePred(p)
				}
				add(cond{pred: p})
			}
		}
		for _, text := range f.allowed {
			out = append(out, quoteJSON(text))
		}
	}
	return out
}

// meets reports whether a value meets a condition on a field.
func (s *solver) meets(slot int32, value string, c cond) bool {
	var b Binding
	b.reset(s.m, s.now)
	if value != "" {
		v, err := fastjson.Parse(value)
		if err != nil {
			return false
		}
		b.bindValue(&s.m.fields[slot], slot, v)
	}
	if v := &b.values[slot]; v.state == present {
		return c.pred.match(v)
	}
	return c.onMissing
}

// source returns the expression of a computed field.
func (f *field) source() string {
	if f.node == nil {
		return ""
	}
	return f.node.Text
}
