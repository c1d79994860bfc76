package rules

import "strings"

// implies reports whether every value that meets p meets q. It may miss that for
// trees and patterns, but is never wrong.
func implies(p, q *pred) bool {
	switch {
	case p == q || p.op == never || q.op == always:
		return true
	case p.op == oneOf:
		for _, arg := range p.args {
			if !implies(arg, q) {
				return false
			}
		}
		return true
	case q.op == allOf:
		for _, arg := range q.args {
			if !implies(p, arg) {
				return false
			}
		}
		return true
	case q.op == oneOf:
		for _, arg := range q.args {
			if implies(p, arg) {
				return true
			}
		}
	}
	if p.op == allOf {
		for _, arg := range p.args {
			if implies(arg, q) {
				return true
			}
		}
		return false
	}
	if q.op == inStrs && p.op == inStrs {
		return len(strDomain.intersect(p.strs, strDomain.complement(q.strs))) == 0
	}
	if p.op == inStrs {
		texts, ok := points(p.strs)
		for _, s := range texts {
			ok = ok && q.matchText(s)
		}
		return ok && q.op != some && q.op != inInts
	}
	if p.op != q.op {
		// What ends with a text contains it.
		return p.op == suffix && q.op == contains && strings.Contains(p.text, q.text)
	}
	switch p.op {
	case inInts:
		return len(intDomain.intersect(p.ints, intDomain.complement(q.ints))) == 0
	case suffix:
		return strings.HasSuffix(p.text, q.text)
	case contains:
		return strings.Contains(p.text, q.text)
	case matches:
		return p.re.String() == q.re.String()
	case negation:
		return implies(q.args[0], p.args[0])
	case some:
		return implies(p.args[0], q.args[0])
	}
	return false
}
