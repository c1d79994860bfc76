package rules

import (
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/automata"
)

// findText finds a shortest text of a field that meets a predicate. left bounds
// the work.
func findText(f *field, p *pred, left *int) (string, verdict) {
	t := textTests{search: automata.New(left), numbers: make(map[*pred]int)}
	if !t.add(p) {
		return "", open
	}
	fits := func(r rune) bool { return !f.foldCase || foldRune(r) == r }
	text, found, decided := t.search.Find(fits, func(accepts func(int) bool) bool { return t.hold(p, accepts) })
	switch {
	case found:
		return text, met
	case decided:
		return "", empty
	}
	return "", open
}

// textTests are the tests of a tree of predicates, with their numbers in the
// search.
type textTests struct {
	search  *automata.Search
	numbers map[*pred]int
}

// add adds the tests of a tree. It reports whether the search knows them all.
func (t *textTests) add(p *pred) bool {
	if _, ok := t.numbers[p]; ok {
		return true
	}
	var number int
	ok := true
	switch p.op {
	case never, always:
		return true
	case allOf, oneOf, negation:
		return !slices.ContainsFunc(p.args, func(arg *pred) bool { return !t.add(arg) })
	case inStrs:
		var ends []string
		for _, sp := range p.strs {
			ends = append(ends, sp.lo)
			if sp.hi != strDomain.open {
				ends = append(ends, sp.hi)
			}
		}
		number = t.search.Set(ends, p.matchText)
	case suffix:
		number, ok = t.search.Suffix(p.text), len(p.text) <= maxPattern
	case contains:
		number, ok = t.search.Part(p.text), len(p.text) <= maxPattern
	case matches:
		number, ok = t.search.Pattern(p.re.String())
	default:
		ok = false
	}
	t.numbers[p] = number
	return ok
}

// hold evaluates a tree by what its tests accept.
func (t *textTests) hold(p *pred, accepts func(number int) bool) bool {
	switch p.op {
	case never:
		return false
	case always:
		return true
	case allOf:
		return !slices.ContainsFunc(p.args, func(arg *pred) bool { return !t.hold(arg, accepts) })
	case oneOf:
		return slices.ContainsFunc(p.args, func(arg *pred) bool { return t.hold(arg, accepts) })
	case negation:
		return !t.hold(p.args[0], accepts)
	}
	return accepts(t.numbers[p])
}
