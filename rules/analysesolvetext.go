package rules

import (
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
)

// findText finds a text of a field that meets a predicate, or proves that none
// does. It tries texts made of the predicate's own parts, and looks for tests that
// exclude each other. For
//
//	{all: ["*@acme.com", "*admin*", not: root*]}
//
// one of the texts is admin@acme.com. Of {all: ["*sales@acme.com", not: "*.com"]} no
// text is, as what ends with the first ends with .com. Two regular expressions may
// exclude each other without its noticing: that is not decided.
func findText(f *field, p *pred, left *int) (string, verdict) {
	ways, few := waysOf(p, false)
	for _, way := range ways {
		*left -= len(way) * len(way)
	}
	if few && *left >= 0 && !slices.ContainsFunc(ways, func(way []*pred) bool { return !excluded(way) }) {
		return "", empty
	}
	var t textParts
	t.add(f, p)
	for _, text := range t.texts() {
		if *left -= textCost; *left < 0 {
			break
		}
		if key, ok := f.textKey(text); ok && p.matchText(key) {
			return text, met
		}
	}
	return "", open
}

const (
	// maxTexts bounds the texts that are tried for a predicate.
	maxTexts = 600
	// textCost is what trying one takes, in steps.
	textCost = 8
	// maxMatches is how many texts are made for a regular expression.
	maxMatches = 8
)

// textParts are the texts in the tests of a tree of predicates.
type textParts struct{ begins, parts, ends []string }

func (t *textParts) add(f *field, p *pred) {
	switch p.op {
	case inStrs:
		for _, sp := range p.strs {
			if text, ok := f.textIn(sp); ok {
				t.begins = append(t.begins, text)
			}
		}
	case suffix:
		t.ends = append(t.ends, p.text)
	case contains:
		t.parts = append(t.parts, p.text)
	case matches:
		if re, err := syntax.Parse(p.re.String(), syntax.Perl); err == nil {
			t.parts = append(t.parts, matchesOf(re)...)
		}
	}
	for _, arg := range p.args {
		t.add(f, arg)
	}
}

// texts returns the parts alone and together, with and without something between.
func (t *textParts) texts() []string {
	middles := append([]string{""}, t.parts...)
	for i, a := range t.parts {
		for _, b := range t.parts[:i] {
			middles = append(middles, a+b, b+a)
		}
	}
	middles = append(middles, strings.Join(t.parts, "-"))
	var texts []string
	for _, between := range []string{"", "x", "-"} {
		for _, begin := range append([]string{""}, t.begins...) {
			for _, middle := range middles {
				for _, end := range append([]string{""}, t.ends...) {
					if len(texts) == maxTexts {
						return texts
					}
					texts = append(texts, begin+between+middle+end, begin+middle+between+end)
				}
			}
		}
	}
	return texts
}

// matchesOf returns a few texts that a regular expression matches, but for its
// assertions: of ^v[0-9]+$ these are v0, v00, v9 and so on.
func matchesOf(re *syntax.Regexp) []string {
	texts := []string{""}
	then := func(more []string) {
		var next []string
		for _, b := range more {
			for _, a := range texts {
				if len(next) < maxMatches {
					next = append(next, a+b)
				}
			}
		}
		texts = next
	}
	switch re.Op {
	case syntax.OpLiteral:
		then([]string{string(re.Rune)})
	case syntax.OpCharClass:
		var runes []string
		for i := 0; i+1 < len(re.Rune) && i < 6; i += 2 {
			lo, hi := re.Rune[i], re.Rune[i+1]
			if lo <= 'x' && 'x' <= hi {
				lo = 'x'
			}
			for lo < hi && !unicode.IsPrint(lo) && lo < unicode.MaxLatin1 {
				lo++
			}
			runes = append(runes, string(lo), string(hi))
		}
		then(runes)
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		then([]string{"x"})
	case syntax.OpCapture, syntax.OpConcat:
		for _, sub := range re.Sub {
			then(matchesOf(sub))
		}
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			all = append(all, matchesOf(sub)...)
		}
		then(all)
	case syntax.OpStar, syntax.OpQuest:
		then(append([]string{""}, matchesOf(re.Sub[0])...))
	case syntax.OpPlus:
		once := matchesOf(re.Sub[0])
		then(once)
		then(append([]string{""}, once...))
	case syntax.OpRepeat:
		once := matchesOf(re.Sub[0])
		for range re.Min {
			then(once)
		}
		if re.Max < 0 || re.Max > re.Min {
			then(append([]string{""}, once...))
		}
	}
	return texts
}

// excluded reports whether it is plain that no text passes all of some tests.
func excluded(tests []*pred) bool {
	all := allPred(slices.Clone(tests))
	if all.op != allOf {
		return all.op == never
	}
	for i, p := range all.args {
		if slices.ContainsFunc(all.args[i+1:], func(q *pred) bool { return exclude(p, q) || exclude(q, p) }) {
			return true
		}
	}
	return false
}

// exclude reports whether it is plain that no text passes two tests.
func exclude(p, q *pred) bool {
	switch {
	case q.op == negation:
		return implies(p, q.args[0])
	case p.op == suffix && q.op == suffix:
		return !strings.HasSuffix(p.text, q.text) && !strings.HasSuffix(q.text, p.text)
	case p.op == inStrs:
		if texts, ok := points(p.strs); ok {
			return !slices.ContainsFunc(texts, q.matchText)
		}
	}
	return len(strDomain.intersect(p.within(), q.within())) == 0
}

// implies reports whether it is plain that every text that passes a test passes
// another one.
func implies(p, q *pred) bool {
	part, isPart := q.part()
	switch {
	case isPart && p.op == inStrs:
		return !slices.ContainsFunc(p.strs, func(s span[string]) bool { return !strings.Contains(beginOf(s), part) })
	case isPart && p.op == suffix:
		return strings.Contains(p.text, part)
	case isPart:
		own, ok := p.part()
		return ok && strings.Contains(own, part)
	case p.op == inStrs:
		texts, ok := points(p.strs)
		return ok && !slices.ContainsFunc(texts, func(text string) bool { return !q.matchText(text) })
	case p.op == suffix && q.op == suffix:
		return strings.HasSuffix(p.text, q.text)
	}
	return p.op == matches && q.op == matches && p.re.String() == q.re.String()
}

// part returns the text that a text must contain to pass a test, if that is all.
func (p *pred) part() (string, bool) {
	if p.op == matches {
		return p.re.LiteralPrefix()
	}
	return p.text, p.op == contains
}

// within returns a set that all texts which pass a test are in: of ^v[0-9]+$ those
// that begin with v.
func (p *pred) within() strSet {
	switch p.op {
	case inStrs:
		return p.strs
	case matches:
		re, err := syntax.Parse(p.re.String(), syntax.Perl)
		if err == nil && re.Op == syntax.OpConcat && re.Sub[0].Op == syntax.OpBeginText && re.Sub[1].Op == syntax.OpLiteral && re.Sub[1].Flags&syntax.FoldCase == 0 {
			return strSet{startingWith(string(re.Sub[1].Rune))}
		}
	}
	return strDomain.all()
}

// beginOf returns the longest common prefix of a span's texts: pre for pre to
// prf.
func beginOf(s span[string]) string {
	n := 0
	for n < len(s.lo) && n < len(s.hi) && s.lo[n] == s.hi[n] {
		n++
	}
	if n < len(s.lo) && n+1 == len(s.hi) && s.lo[n]+1 == s.hi[n] {
		n++
	}
	return s.lo[:n]
}
