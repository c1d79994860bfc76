package rules

import (
	"math"
	"slices"
	"strings"
	"time"
)

// verdict says whether something meets a condition. A better verdict is greater.
type verdict uint8

const (
	empty verdict = iota // nothing does
	open                 // not decided
	met                  // an example does
)

// not returns the condition that a value, or its absence, does not meet c. Unlike
// not X in a cell, it is met by a missing value where c is not.
func (c cond) not() cond { return cond{onMissing: !c.onMissing, pred: notPred(c.pred)} }

// solve finds a value of a declared field that meets a condition: JSON, empty
// for no value.
func (s *solver) solve(f *field, c cond) (string, verdict) {
	if c.onMissing && !f.required {
		return "", met
	}
	value, v := s.value(f, c.pred)
	if v != met && c.onMissing && !s.t.insists(f) {
		return "", met // a required field may be missing all the same
	}
	return value, v
}

// value is solve for a field that has a value.
func (s *solver) value(f *field, p *pred) (string, verdict) {
	if p.op == never {
		return "", empty
	}
	switch f.typ {
	case listField:
		return s.list(f, p)
	case stringField:
		text, v := s.text(f, p)
		return quoteJSON(text), v
	}
	return s.integer(f, p)
}

// space returns the keys that a boolean, number or date can have.
func (f *field) space() intSet {
	switch f.typ {
	case booleanField:
		return intSet{{0, 2}}
	case dateField:
		return intSet{{minDate, maxDate + 1}}
	}
	if f.numbers != nil {
		var s intSet
		for k := range f.numbers {
			s = append(s, span[int64]{k, k + 1})
		}
		return intDomain.normalize(s)
	}
	return intSet{{numberKey(f.min), numberKey(f.max) + 1}}
}

// integer finds a boolean, number or date.
func (s *solver) integer(f *field, p *pred) (string, verdict) {
	keys := f.space()
	switch p.op {
	case always:
	case inInts:
		keys = intDomain.intersect(p.ints, keys)
	default:
		return "", open
	}
	if n := len(keys) - 1; s.high && n >= 0 {
		if value, ok := f.integerIn(s.m, f.upper(keys[n]), s.now); ok {
			return value, met
		}
	}
	for _, sp := range keys {
		if value, ok := f.integerIn(s.m, sp, s.now); ok {
			return value, met
		}
	}
	if len(keys) == 0 {
		return "", empty
	}
	return "", open
}

// upper returns the upper part of a span, but not so far up that examples become
// unreadable: it begins within a century, or at twice the lower end.
func (f *field) upper(s span[int64]) span[int64] {
	lo := s.hi - 1
	switch {
	case f.typ == dateField:
		const century = 100 * 365 * 24 * 3600 * 1_000_000
		lo = min(lo, max(s.lo, 0)+century)
	case f.typ == numberField:
		lo = min(lo, numberKey(2*max(math.Ceil(numberOf(s.lo)), 500)))
	}
	return span[int64]{max(s.lo, lo), s.hi}
}

// text finds the key of a text, a version or an address.
func (s *solver) text(f *field, p *pred) (string, verdict) {
	if f.texts != nil {
		for _, text := range f.allowed {
			if key, _ := f.textKey(text); p.matchText(key) {
				return text, met
			}
		}
		return "", empty
	}
	switch p.op {
	case never:
		return "", empty
	case always:
		p = &pred{op: inStrs, strs: strDomain.all()}
	}
	if f.format == plainText && p.op != inStrs && p.matchText("other") {
		return "other", met
	}
	if p.op == inStrs {
		for _, sp := range p.strs {
			if text, ok := f.textIn(sp); ok {
				return text, met
			}
		}
	}
	if f.format != plainText {
		return "", open
	}
	return findText(f, p, s.left)
}

// maxWays is how many ways to meet a condition are tried.
const maxWays = 256

// list finds a list that meets a condition, by one of the ways to meet it.
func (s *solver) list(f *field, p *pred) (string, verdict) {
	ways, ok := listWays(p)
	result := empty
	if !ok {
		result = open
	}
	for _, way := range ways {
		elements, v := s.elements(f, way)
		if v == met {
			var b strings.Builder
			for i, e := range elements {
				b.WriteByte("[,"[min(i, 1)])
				b.WriteString(quoteJSON(e))
			}
			return b.String() + "]", met
		}
		result = max(result, v)
	}
	return "", result
}

// listWay is one way to meet a condition on a list: sizes, tests of which each
// needs an element that meets it, and tests that no element may meet. The cell
// {any: [a, b], size: 2..} is two ways, {none: [a, b]} is one:
//
//	sizes 2..   some a
//	sizes 2..   some b
//
//	sizes any             none a, none b
type listWay struct {
	sizes    intSet
	some     []*pred // each is met by an element
	excluded []*pred // each is met by no element
}

// listWays returns all ways to meet a tree of tests. It reports whether there are few
// enough.
func listWays(p *pred) ([]listWay, bool) {
	all, ok := waysOf(p, false)
	ways := make([]listWay, len(all))
	for i, tests := range all {
		w := listWay{sizes: intDomain.all()}
		for _, test := range tests {
			switch test.op {
			case always:
			case inInts:
				w.sizes = intDomain.intersect(w.sizes, test.ints)
			case some:
				w.some = append(w.some, test.args[0])
			case negation:
				w.excluded = append(w.excluded, test.args[0].args[0])
			default:
				return nil, false
			}
		}
		ways[i] = w
	}
	return ways, ok
}

// waysOf returns all ways to meet a tree of tests, or with negate not to: tests, each
// negated or not, that hold together. {all: [[a*, b*], not: "*z"]} is two ways:
//
//	a*   not *z
//	b*   not *z
//
// It reports whether there are few enough.
func waysOf(p *pred, negate bool) ([][]*pred, bool) {
	switch {
	case p.op == negation:
		return waysOf(p.args[0], !negate)
	case p.op != allOf && p.op != oneOf:
		if negate {
			p = notPred(p)
		}
		if p.op == never {
			return nil, true
		}
		return [][]*pred{{p}}, true
	}
	together := (p.op == allOf) != negate
	var ways [][]*pred
	if together {
		ways = [][]*pred{nil}
	}
	for _, arg := range p.args {
		more, ok := waysOf(arg, negate)
		if together {
			if !ok || len(ways)*len(more) > maxWays {
				return nil, false
			}
			var both [][]*pred
			for _, a := range ways {
				for _, b := range more {
					both = append(both, slices.Concat(a, b))
				}
			}
			ways = both
			continue
		}
		if ways = append(ways, more...); !ok || len(ways) > maxWays {
			return ways, false
		}
	}
	return ways, true
}

// elements finds the elements of a list.
func (s *solver) elements(f *field, way listWay) ([]string, verdict) {
	forbidden := make([]*pred, len(way.excluded))
	for i, p := range way.excluded {
		forbidden[i] = notPred(p)
	}
	g := grouping{s: s, f: f, tests: way.some, forbidden: forbidden}
	if len(way.some) == 0 {
		g.tests = []*pred{alwaysPred}
	}
	// That each test has an element is quickly seen to be impossible.
	for _, p := range g.tests {
		if _, v := g.one(p); v != met {
			return nil, v
		}
	}
	g.most = mostElements(way.sizes)
	v := g.assign(0)
	if v != met {
		return nil, v
	}
	n, ok := leastSize(way.sizes, len(g.texts))
	if !ok {
		return nil, open // there is a size, but only of a very long list
	}
	texts := g.texts
	for len(texts) < n {
		texts = append(texts, texts[0])
	}
	return texts, met
}

// grouping divides tests among the elements of a list, so that every test is
// met by one, and there are no more elements than the list may have. For the
// tests a*, *z and b* in a list of at most two elements:
//
//	a*   a new element           "a"
//	*z   a new element           "a", "z"
//	b*   full; with a*: no text begins with both
//	     with *z                 "a", "bz"
//
// If no choice is left for a test, the choice for the test before is undone.
type grouping struct {
	s         *solver
	f         *field
	tests     []*pred
	forbidden []*pred
	most      int
	groups    [][]*pred
	texts     []string
}

// one returns an element that meets some tests.
func (g *grouping) one(ps ...*pred) (string, verdict) {
	return g.s.text(g.f, allPred(slices.Concat(ps, g.forbidden)))
}

// assign gives an element to each of the tests from one on: an element that
// meets it already, a new one, or one that is changed to meet it as well.
func (g *grouping) assign(test int) verdict {
	if *g.s.left--; *g.s.left < 0 {
		return open
	}
	if test == len(g.tests) {
		return met
	}
	p := g.tests[test]
	result := empty
	into := func(i int) bool {
		both := slices.Concat(g.groups[i], []*pred{p})
		text, v := g.one(both...)
		if v == met {
			before, was := g.groups[i], g.texts[i]
			g.groups[i], g.texts[i] = both, text
			if v = g.assign(test + 1); v != met {
				g.groups[i], g.texts[i] = before, was
			}
		}
		result = max(result, v)
		return v == met
	}
	// An element that meets the test as it is makes the shortest list.
	at := slices.IndexFunc(g.texts, func(text string) bool { return p.matchText(g.f.elementKey(text)) })
	if at >= 0 && into(at) {
		return met
	}
	if len(g.groups) < g.most {
		text, v := g.one(p)
		if v == met {
			g.groups, g.texts = append(g.groups, []*pred{p}), append(g.texts, text)
			if v = g.assign(test + 1); v == met {
				return met
			}
			g.groups, g.texts = g.groups[:len(g.groups)-1], g.texts[:len(g.texts)-1]
		}
		result = max(result, v)
	}
	for i := range g.groups {
		if i != at && into(i) {
			return met
		}
	}
	return result
}

// elementKey returns the key of an element's text.
func (f *field) elementKey(text string) string {
	key, _ := f.textKey(text)
	return key
}

// maxExampleSize is how long the lists of examples are at most.
const maxExampleSize = 1000

// mostElements returns the most elements that a list of some sizes can have.
func mostElements(sizes intSet) int {
	if len(sizes) == 0 {
		return 0
	}
	last := sizes[len(sizes)-1]
	if last.hi > numberKey(math.MaxInt32) {
		return math.MaxInt32
	}
	n := int(math.Floor(numberOf(last.hi - 1)))
	if n < 1 || !intDomain.contains(sizes, numberKey(float64(n))) {
		// The last span has no whole number, perhaps those before it.
		return mostElements(sizes[:len(sizes)-1])
	}
	return n
}

// leastSize returns the least size of a list from one on.
func leastSize(sizes intSet, from int) (int, bool) {
	for n := from; n <= maxExampleSize; n++ {
		if intDomain.contains(sizes, numberKey(float64(n))) {
			return n, true
		}
	}
	return 0, false
}

// instantIn finds an instant from now on.
func (s *solver) instantIn(p *pred) (time.Time, verdict) {
	keys := intSet{{dateKey(s.now), maxKey}}
	switch p.op {
	case never:
		return s.now, empty
	case always:
	case inInts:
		keys = intDomain.intersect(p.ints, keys)
	default:
		return s.now, open
	}
	if len(keys) == 0 {
		return s.now, empty
	}
	if keys[0].lo == dateKey(s.now) {
		return s.now, met
	}
	return time.UnixMicro(keys[0].lo).UTC(), met
}
