package rules

import (
	"cmp"
	"math"
	"slices"
)

// Every comparable value is bound to a key that sorts as the value does: an
// int64 for booleans, numbers, dates and sizes, a string for text, versions
// and addresses. A condition on such a value is then a set of half-open spans
// of keys, and "one of", "all of" and "not" are union, intersection and
// complement of sets. With 20+ for the key just above that of 20:
//
//	10..20              [10, 20+)
//	not 10..20          [least, 10) and [20+, no end)
//	[10..20, 15..30]    [10, 30+)
//	pro                 ["pro", "pro\x00")
//	pre*                ["pre", "prf")
//	{none: [pre*, pro]} ["", "pre"), ["prf", "pro") and ["pro\x00", no end)

// span is the keys from lo up to, not including, hi. The hi "" of a string span
// and the hi maxKey of an integer span mean that there is no upper end.
type span[K cmp.Ordered] struct{ lo, hi K }

// set is a sorted list of spans that neither overlap nor touch.
type set[K cmp.Ordered] []span[K]

type (
	intSet = set[int64]
	strSet = set[string]
)

// minKey and maxKey are the ends of the integer keys. No value has maxKey.
const (
	minKey = math.MinInt64
	maxKey = math.MaxInt64
)

// domain knows the ends of a kind of key.
type domain[K cmp.Ordered] struct {
	least K
	open  K // the hi that means no upper end
}

var (
	intDomain = domain[int64]{minKey, maxKey}
	strDomain = domain[string]{"", ""}
)

// ends compares upper ends.
func (d domain[K]) ends(a, b K) int {
	switch {
	case a == b:
		return 0
	case a == d.open:
		return 1
	case b == d.open:
		return -1
	}
	return cmp.Compare(a, b)
}

// empty reports whether a span has no key.
func (d domain[K]) empty(s span[K]) bool { return s.hi != d.open && s.hi <= s.lo }

// all returns the set of all keys.
func (d domain[K]) all() set[K] { return set[K]{{d.least, d.open}} }

// normalize sorts and joins spans. It takes over the slice.
func (d domain[K]) normalize(s set[K]) set[K] {
	s = slices.DeleteFunc(s, d.empty)
	slices.SortFunc(s, func(a, b span[K]) int { return cmp.Compare(a.lo, b.lo) })
	out := s[:0]
	for _, next := range s {
		if n := len(out); n > 0 && (out[n-1].hi == d.open || next.lo <= out[n-1].hi) {
			if d.ends(next.hi, out[n-1].hi) > 0 {
				out[n-1].hi = next.hi
			}
			continue
		}
		out = append(out, next)
	}
	return out
}

func (d domain[K]) union(a, b set[K]) set[K] {
	return d.normalize(slices.Concat(a, b))
}

func (d domain[K]) complement(s set[K]) set[K] {
	var out set[K]
	lo := d.least
	for _, sp := range s {
		if sp.lo > lo {
			out = append(out, span[K]{lo, sp.lo})
		}
		if sp.hi == d.open {
			return out
		}
		lo = sp.hi
	}
	return append(out, span[K]{lo, d.open})
}

func (d domain[K]) intersect(a, b set[K]) set[K] {
	var out set[K]
	for i, j := 0, 0; i < len(a) && j < len(b); {
		s := span[K]{max(a[i].lo, b[j].lo), a[i].hi}
		if d.ends(b[j].hi, s.hi) < 0 {
			s.hi = b[j].hi
		}
		if !d.empty(s) {
			out = append(out, s)
		}
		if d.ends(a[i].hi, b[j].hi) < 0 {
			i++
		} else {
			j++
		}
	}
	return out
}

// meet reports whether two sets have a key in common.
func (d domain[K]) meet(a, b set[K]) bool {
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i].hi != d.open && a[i].hi <= b[j].lo:
			i++
		case b[j].hi != d.open && b[j].hi <= a[i].lo:
			j++
		default:
			return true
		}
	}
	return false
}

// contains reports whether the set has a key.
func (d domain[K]) contains(s set[K], key K) bool {
	lo, hi := 0, len(s)
	for lo < hi { // the first span that begins above key
		mid := int(uint(lo+hi) >> 1)
		if s[mid].lo <= key {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return false
	}
	end := s[lo-1].hi
	return end == d.open || key < end
}

// isAll reports whether the set has every key.
func (d domain[K]) isAll(s set[K]) bool {
	return len(s) == 1 && s[0].lo == d.least && s[0].hi == d.open
}

// point returns the set of one string: nothing sorts between a string and the
// same string with a zero byte behind it.
func point(s string) span[string] { return span[string]{s, s + "\x00"} }

// isPoint reports whether a span has exactly one string.
func isPoint(s span[string]) bool {
	return len(s.hi) == len(s.lo)+1 && s.hi[len(s.lo)] == 0 && s.hi[:len(s.lo)] == s.lo
}

// startingWith returns the span of all strings with a prefix.
func startingWith(prefix string) span[string] { return span[string]{prefix, successor(prefix)} }

// successor returns the least string above all strings that begin with prefix, or
// "" when there is none.
func successor(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return ""
}

// numberKey maps a number to a key: the bits of an IEEE 754 number sort as
// integers, once the bits of negative numbers are inverted. The key after a
// number's key belongs to the next number that a double can hold.
func numberKey(f float64) int64 {
	k := int64(math.Float64bits(f + 0)) // -0 becomes 0
	if k < 0 {
		k ^= math.MaxInt64
	}
	return k
}

// numberOf returns the number of a key.
func numberOf(k int64) float64 {
	if k < 0 {
		k ^= math.MaxInt64
	}
	return math.Float64frombits(uint64(k))
}
