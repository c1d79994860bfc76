package rules

import (
	"regexp"
	"slices"
	"strings"
)

// predOp is the kind of a predicate.
type predOp uint8

const (
	never predOp = iota
	always
	inInts   // the integer key is in ints
	inStrs   // the string key is in strs
	suffix   // the string key ends with text
	contains // the string key contains text
	matches  // re is found in the string key
	allOf    // every one of args holds
	oneOf    // one of args holds
	negation // args[0] does not hold
	some     // args[0] holds for the string key of an element
)

// pred is a predicate on the value of a slot that has one. Sets are merged
// wherever predicates are joined, so that a tree remains only of tests that are
// no sets: suffixes, substrings, regular expressions and elements of lists.
//
//	{all: [pre*, not prefix]}   inStrs ["pre", "prefix") and ["prefix\x00", "prf")
//	{all: [pre*, "*.com"]}      allOf(inStrs ["pre", "prf"), suffix ".com")
//	on a list, {any: [a, b]}    some(inStrs a, b)
//	on a list, {none: [a, b]}   allOf(negation(some a), negation(some b))
type pred struct {
	op   predOp
	ints intSet
	strs strSet
	text string
	re   *regexp.Regexp
	args []*pred
}

var (
	neverPred  = &pred{op: never}
	alwaysPred = &pred{op: always}
)

// intPred returns the predicate of being in a set of integer keys.
func intPred(s intSet) *pred {
	switch {
	case len(s) == 0:
		return neverPred
	case intDomain.isAll(s):
		return alwaysPred
	}
	return &pred{op: inInts, ints: s}
}

// strPred returns the predicate of being in a set of string keys.
func strPred(s strSet) *pred {
	switch {
	case len(s) == 0:
		return neverPred
	case strDomain.isAll(s):
		return alwaysPred
	}
	return &pred{op: inStrs, strs: s}
}

// anyPred holds when one of ps does.
func anyPred(ps []*pred) *pred {
	var (
		ints intSet
		strs strSet
		elem []*pred
		rest []*pred
	)
	for _, p := range ps {
		switch p.op {
		case never:
		case always:
			return alwaysPred
		case inInts:
			ints = append(ints, p.ints...)
		case inStrs:
			strs = append(strs, p.strs...)
		case some:
			elem = append(elem, p.args[0])
		case oneOf:
			rest = append(rest, p.args...)
		default:
			rest = append(rest, p)
		}
	}
	if ints != nil {
		rest = append(rest, intPred(intDomain.normalize(ints)))
	}
	if strs != nil {
		rest = append(rest, strPred(strDomain.normalize(strs)))
	}
	if elem != nil {
		rest = append(rest, somePred(anyPred(elem)))
	}
	return join(oneOf, neverPred, alwaysPred, rest)
}

// allPred holds when every one of ps does.
func allPred(ps []*pred) *pred {
	ints, strs := intDomain.all(), strDomain.all()
	var rest []*pred
	for _, p := range ps {
		switch p.op {
		case never:
			return neverPred
		case always:
		case inInts:
			ints = intDomain.intersect(ints, p.ints)
		case inStrs:
			strs = strDomain.intersect(strs, p.strs)
		case allOf:
			rest = append(rest, p.args...)
		default:
			rest = append(rest, p)
		}
	}
	return join(allOf, alwaysPred, neverPred, append(rest, intPred(ints), strPred(strs)))
}

// join makes a tree node of ps. Neutral members are left out; an absorbing one
// is the result.
func join(op predOp, neutral, absorbing *pred, ps []*pred) *pred {
	args := ps[:0]
	for _, p := range ps {
		switch p.op {
		case absorbing.op:
			return absorbing
		case neutral.op:
		default:
			args = append(args, p)
		}
	}
	switch len(args) {
	case 0:
		return neutral
	case 1:
		return args[0]
	}
	return &pred{op: op, args: args}
}

// notPred holds when p does not.
func notPred(p *pred) *pred {
	switch p.op {
	case never:
		return alwaysPred
	case always:
		return neverPred
	case inInts:
		return intPred(intDomain.complement(p.ints))
	case inStrs:
		return strPred(strDomain.complement(p.strs))
	case negation:
		return p.args[0]
	}
	return &pred{op: negation, args: []*pred{p}}
}

// somePred holds when an element of a list meets p. A list that is bound has
// at least one element.
func somePred(p *pred) *pred {
	if p.op == never || p.op == always {
		return p
	}
	return &pred{op: some, args: []*pred{p}}
}

// maxPatternValue is how many bytes a text may have for patterns to look at it.
// The time that they take grows with the text, and callers choose the text.
const maxPatternValue = 8 << 10

// isLong reports whether a text is too long for patterns.
func isLong(s string) bool { return len(s) > maxPatternValue }

// hasPattern reports whether the time that the predicate takes grows with the
// text. Prefixes and suffixes are compared without reading the whole text.
func (p *pred) hasPattern() bool {
	return p.op == contains || p.op == matches || slices.ContainsFunc(p.args, (*pred).hasPattern)
}

// match reports whether a value meets the predicate.
func (p *pred) match(v *value) bool {
	switch p.op {
	case inInts:
		return intDomain.contains(p.ints, v.key)
	case allOf:
		for _, arg := range p.args {
			if !arg.match(v) {
				return false
			}
		}
		return true
	case oneOf:
		for _, arg := range p.args {
			if arg.match(v) {
				return true
			}
		}
		return false
	case negation:
		return !p.args[0].match(v)
	case some:
		for _, item := range v.list {
			if p.args[0].matchText(item) {
				return true
			}
		}
		return false
	}
	return p.matchText(v.str)
}

// matchText is match for the key of a text or of an element of a list.
func (p *pred) matchText(s string) bool {
	switch p.op {
	case always:
		return true
	case inStrs:
		return strDomain.contains(p.strs, s)
	case suffix:
		return strings.HasSuffix(s, p.text)
	case contains:
		return strings.Contains(s, p.text)
	case matches:
		return p.re.MatchString(s)
	case allOf:
		for _, arg := range p.args {
			if !arg.matchText(s) {
				return false
			}
		}
		return true
	case oneOf:
		for _, arg := range p.args {
			if arg.matchText(s) {
				return true
			}
		}
	case negation:
		return !p.args[0].matchText(s)
	}
	return false
}
