package rules

import (
	"net/netip"
	"regexp"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// value decodes a plain scalar on a field whose values have an order: a value
// or a range of them.
func (r *cellReader) value(f *field, n *document.Node, text string) *pred {
	switch {
	case f.typ == booleanField:
		return r.boolean(n, text)
	case f.typ == numberField:
		return r.number(f, n, text)
	case f.typ == dateField:
		return r.date(f, n, text)
	case f.format == semverText:
		return r.version(f, n, text)
	}
	return r.address(f, n, text)
}

// boolean decodes true or false. The other words of YAML 1.1 are refused,
// because tools disagree on whether they are text.
func (r *cellReader) boolean(n *document.Node, text string) *pred {
	switch text {
	case "true":
		return intPred(intSet{{1, 2}})
	case "false":
		return intPred(intSet{{0, 1}})
	}
	r.errs.Add(n, "%q is neither true nor false%s", text, document.BooleanHint(text))
	return nil
}

// cutRange splits the text of a range at its dots. exclusive is set where the
// upper end does not belong to it.
func cutRange(text string) (lo, hi string, exclusive, ok bool) {
	lo, hi, ok = strings.Cut(text, "..")
	if !ok {
		return "", "", false, false
	}
	hi = strings.TrimSpace(hi)
	if rest, cut := strings.CutPrefix(hi, "<"); cut {
		hi, exclusive = strings.TrimSpace(rest), true
	}
	return strings.TrimSpace(lo), hi, exclusive, true
}

// ranged decodes a value or a range by two functions. from returns the first key
// of a value, past the key after its last one: for the date 2026-01-31 the
// beginning of that day and that of the next.
func ranged[K int64 | string](r *cellReader, f *field, n *document.Node, text string, d domain[K], from, past func(string) (K, bool)) (set[K], bool) {
	lo, hi, exclusive, isRange := cutRange(text)
	if !isRange {
		lo, hi = text, text
	}
	if isRange && strings.HasPrefix(hi, ".") {
		r.badValue(f, n, text)
		return nil, false
	}
	s := span[K]{d.least, d.open}
	if isRange && lo == "" && hi == "" {
		r.errs.Add(n, "%q is a range without ends: write any for no condition", text)
		return nil, false
	}
	if isRange && exclusive && hi == "" {
		r.errs.Add(n, "%q has no value behind <", text)
		return nil, false
	}
	var ok bool
	if lo != "" || !isRange {
		s.lo, ok = from(lo)
		if !ok {
			r.badValue(f, n, lo)
			return nil, false
		}
	}
	if hi != "" || !isRange {
		if exclusive {
			s.hi, ok = from(hi)
		} else {
			s.hi, ok = past(hi)
		}
		if !ok {
			r.badValue(f, n, hi)
			return nil, false
		}
	}
	if d.empty(s) {
		r.errs.Add(n, "the range %s is empty: nothing lies from %s to %s", text, lo, hi)
		return nil, false
	}
	return set[K]{s}, true
}

// badValue reports text that is no value of the field.
func (r *cellReader) badValue(f *field, n *document.Node, text string) {
	hint := r.rangeHint(f, text)
	switch {
	case hint != "":
	case strings.Contains(n.Text, "..."):
		hint = ": a range has two dots"
	case len(text) > 2 && text[0] == '/' && text[len(text)-1] == '/':
		hint = ": a regular expression needs a field of text"
	case strings.ContainsAny(text, "<>="):
		hint = " (a range is written 10..20, 10..<20, 10.. or ..20)"
	case f.typ == numberField && f != listSize && isDigits(strings.ReplaceAll(strings.TrimLeft(text, "+-"), "_", "")):
		hint = " as JSON writes it, without leading zeros, + and _"
	}
	r.errs.Add(n, "%s: %q is not %s%s", f.name, shorten(text), f.expected(), hint)
}

// rangeHint returns the end of the message about a range that is written as people
// write one, such as 100-200, 100 to 200, 100+ and >= 100, or "".
func (r *cellReader) rangeHint(f *field, text string) string {
	isValue := func(s string) bool {
		switch {
		case f.typ == numberField:
			_, ok := parseNumber(s)
			return ok
		case f.typ == dateField:
			_, _, ok := r.m.instant(s)
			return ok
		case f.format == semverText:
			_, ok := parseVersion(s, false)
			return ok
		case f.format == addressText:
			_, ok := parseAddress(s)
			return ok
		}
		return false
	}
	write := func(s string) string { return ": a range is written " + s }
	if m := spelledRange.FindStringSubmatch(text); m != nil && isValue(m[1]) && isValue(m[2]) {
		return write(m[1] + ".." + m[2])
	}
	if m := compared.FindStringSubmatch(text); m != nil && isValue(m[2]) {
		switch m[1] {
		case ">=", "=>", "≥":
			return write(m[2] + "..")
		case "<=", "=<", "≤":
			return write(".." + m[2])
		case "<":
			return write("..<" + m[2])
		}
	}
	if lo, plus := strings.CutSuffix(text, "+"); plus && isValue(strings.TrimSpace(lo)) {
		return write(strings.TrimSpace(lo) + "..")
	}
	return ""
}

var (
	spelledRange = regexp.MustCompile(`^(\S+?) *(?:-|–|—|\bto\b|\buntil\b|\.\.\.|:) *(\S+)$`)
	compared     = regexp.MustCompile(`^(>=|=>|≥|<=|=<|≤|<) *(\S+)$`)
)

// number decodes a number or a range of numbers.
func (r *cellReader) number(f *field, n *document.Node, text string) *pred {
	from := func(s string) (int64, bool) {
		v, ok := parseNumber(s)
		return numberKey(v), ok
	}
	past := func(s string) (int64, bool) {
		k, ok := from(s)
		return k + 1, ok
	}
	s, ok := ranged(r, f, n, text, intDomain, from, past)
	if !ok {
		return nil
	}
	allowed := intSet{{numberKey(f.min), numberKey(f.max) + 1}}
	if len(intDomain.intersect(s, allowed)) == 0 {
		r.errs.Add(n, "%s is outside the min and max of %s", text, f.name)
		return nil
	}
	if f.numbers != nil {
		empty := true
		for k := range f.numbers {
			empty = empty && !intDomain.contains(s, k)
		}
		if empty {
			r.errs.Add(n, "%s matches none of the values of %s%s", text, f.name, document.DidYouMean(text, f.allowed))
			return nil
		}
	}
	return intPred(s)
}

// date decodes a date or a range of dates. A date without a time is all of
// that day.
func (r *cellReader) date(f *field, n *document.Node, text string) *pred {
	from := func(s string) (int64, bool) {
		t, _, ok := r.m.instant(s)
		return dateKey(t), ok
	}
	past := func(s string) (int64, bool) {
		t, day, ok := r.m.instant(s)
		if day {
			return dateKey(nextDay(t)), ok
		}
		return dateKey(t) + 1, ok
	}
	s, ok := ranged(r, f, n, text, intDomain, from, past)
	if !ok {
		return nil
	}
	return intPred(s)
}

// instant reads a date of a definition: an RFC 3339 time, or a day, which
// begins at midnight in the model's time zone.
func (m *Model) instant(s string) (t time.Time, day, ok bool) {
	if t, ok = parseDay(s, m.location); ok {
		return t, true, true
	}
	t, ok = parseInstant([]byte(s))
	return t, false, ok
}

// version decodes a version, ^version, ~version or a range of versions.
func (r *cellReader) version(f *field, n *document.Node, text string) *pred {
	if text != "" && (text[0] == '^' || text[0] == '~') {
		return r.compatible(f, n, text)
	}
	from := func(s string) (string, bool) {
		v, ok := parseVersion(s, false)
		return string(v.appendKey(nil)), ok
	}
	past := func(s string) (string, bool) {
		v, ok := parseVersion(s, false)
		if v.parts < len(v.numbers) {
			return successor(string(v.appendPrefix(nil, v.parts))), ok
		}
		return string(v.appendKey(nil)) + "\x00", ok
	}
	s, ok := ranged(r, f, n, text, strDomain, from, past)
	if !ok {
		return nil
	}
	return r.checkAllowed(f, n, text, strPred(s))
}

// compatible decodes ^ (the leftmost number that is not zero stays) and ~ (the
// minor number stays, or the major if it is alone).
func (r *cellReader) compatible(f *field, n *document.Node, text string) *pred {
	v, ok := parseVersion(strings.TrimSpace(text[1:]), false)
	if !ok {
		r.badValue(f, n, text[1:])
		return nil
	}
	fixed := min(v.parts, 2)
	if text[0] == '^' {
		fixed = 1
		for fixed < v.parts && v.numbers[fixed-1] == "0" {
			fixed++
		}
	}
	s := strSet{{string(v.appendKey(nil)), successor(string(v.appendPrefix(nil, fixed)))}}
	return r.checkAllowed(f, n, text, strPred(s))
}

// address decodes an address, a network or a range of addresses.
func (r *cellReader) address(f *field, n *document.Node, text string) *pred {
	if strings.Contains(text, "/") {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			r.errs.Add(n, "%s: %q is not a network such as 10.0.0.0/8", f.name, shorten(text))
			return nil
		}
		if p != p.Masked() {
			r.errs.Add(n, "%s: %s is not the beginning of its network: write %s", f.name, text, p.Masked())
			return nil
		}
		return r.checkAllowed(f, n, text, strPred(strSet{networkSpan(p)}))
	}
	from := func(s string) (string, bool) {
		a, ok := parseAddress(s)
		if !ok {
			return "", false
		}
		return string(appendAddressKey(nil, a)), true
	}
	past := func(s string) (string, bool) {
		k, ok := from(s)
		return k + "\x00", ok
	}
	s, ok := ranged(r, f, n, text, strDomain, from, past)
	if !ok {
		return nil
	}
	// The keys of IPv4 sort before the keys of IPv6. A range with one end stays
	// in the family of that end: 10.0.0.1.. has no IPv6 addresses.
	switch lo, hi := s[0].lo, s[0].hi; {
	case lo != "" && hi != "" && lo[0] != hi[0]:
		r.errs.Add(n, "the range %s goes from an IPv4 address to one of IPv6: write a list of two ranges", text)
		return nil
	case hi == "" && lo[0] == ipv4Key:
		s[0].hi = string(rune(ipv6Key))
	case lo == "" && hi[0] == ipv6Key:
		s[0].lo = string(rune(ipv6Key))
	}
	return r.checkAllowed(f, n, text, strPred(s))
}
