package rules

import (
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// minDate and maxDate bound the dates that can be bound: the years 0 to 9999,
// which RFC 3339 (https://www.rfc-editor.org/rfc/rfc3339) can write.
var (
	minDate = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	maxDate = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro() - 1
)

// dateKey maps an instant to a key: microseconds since 1970. Parts of a
// microsecond are cut off.
func dateKey(t time.Time) int64 { return t.UnixMicro() }

// parseNumber reads a number as RFC 8259 writes it. strconv alone would also
// take 0x1f, 1_000, inf and leading zeros.
func parseNumber(s string) (float64, bool) {
	if !isJSONNumber(s) {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && !math.IsInf(f, 0)
}

// isJSONNumber checks the grammar of RFC 8259, section 6.
func isJSONNumber(s string) bool {
	s = strings.TrimPrefix(s, "-")
	whole := leadingDigits(s)
	if !isNumber(whole) {
		return false
	}
	s = s[len(whole):]
	if s != "" && s[0] == '.' {
		fraction := leadingDigits(s[1:])
		if fraction == "" {
			return false
		}
		s = s[1+len(fraction):]
	}
	if s != "" && (s[0] == 'e' || s[0] == 'E') {
		s = s[1:]
		if s != "" && (s[0] == '+' || s[0] == '-') {
			s = s[1:]
		}
		return isDigits(s)
	}
	return s == ""
}

func leadingDigits(s string) string {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return s[:i]
		}
	}
	return s
}

// appendNumberText appends the shortest text of a number that is given as JSON
// wrote it. Whole numbers keep their digits, however many: an identifier that
// was sent as a number must not be rounded.
func appendNumberText(dst []byte, raw string) ([]byte, bool) {
	f, ok := parseNumber(raw)
	if !ok {
		return dst, false
	}
	if raw == "-0" {
		raw = "0"
	}
	if isNumber(strings.TrimPrefix(raw, "-")) {
		return append(dst, raw...), true
	}
	return appendNumber(dst, f), true
}

// appendNumber appends a number's shortest text, as ECMAScript's Number::toString
// words it: with an exponent only below 1e-6 and from 1e21 on.
func appendNumber(dst []byte, f float64) []byte {
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	return strconv.AppendFloat(dst, f+0, 'f', -1, 64)
}

// parseDay reads a date without a time as the instant the day begins.
func parseDay(s string, loc *time.Location) (time.Time, bool) {
	if len(s) != len(time.DateOnly) || s[4] != '-' {
		return time.Time{}, false
	}
	t, err := time.ParseInLocation(time.DateOnly, s, loc)
	return t, err == nil
}

// nextDay returns the instant at which the day after t's begins. It is not 24
// hours later where clocks are changed that day.
func nextDay(t time.Time) time.Time { return t.AddDate(0, 0, 1) }

// parseInstant reads an RFC 3339 time.
func parseInstant(s []byte) (time.Time, bool) {
	var t time.Time
	err := t.UnmarshalText(s)
	return t, err == nil
}

// The first bytes of the keys of addresses.
const (
	ipv4Key = 4
	ipv6Key = 6
)

// appendAddressKey appends the key of an address: IPv4 before IPv6, then by
// value. IPv4-mapped IPv6 addresses are IPv4.
func appendAddressKey(dst []byte, a netip.Addr) []byte {
	a = a.Unmap()
	if a.Is4() {
		b := a.As4()
		return append(append(dst, ipv4Key), b[:]...)
	}
	b := a.As16()
	return append(append(dst, ipv6Key), b[:]...)
}

// parseAddress reads an IP address without a zone.
func parseAddress(s string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(s)
	return a, err == nil && a.Zone() == ""
}

// networkSpan returns the span of a network's addresses.
func networkSpan(p netip.Prefix) span[string] {
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	first := appendAddressKey(nil, p.Masked().Addr())
	last := append([]byte(nil), first...)
	for bit := p.Bits(); bit < p.Addr().BitLen(); bit++ {
		last[1+bit/8] |= 0x80 >> (bit % 8)
	}
	return span[string]{string(first), successor(string(last))}
}

// isFolded reports whether appendFolded would leave s as it is.
func isFolded(s string) bool {
	for i := range len(s) {
		if c := s[i]; 'A' <= c && c <= 'Z' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// appendFolded appends s with each character replaced by the same one of all
// characters that differ from it only by case (Unicode's simple folding, as in
// strings.EqualFold): K, k and the Kelvin sign become k.
func appendFolded(dst []byte, s string) []byte {
	for _, r := range s {
		dst = utf8.AppendRune(dst, foldRune(r))
	}
	return dst
}

func foldRune(r rune) rune {
	if r < utf8.RuneSelf {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}
	folded := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		folded = min(folded, next)
	}
	if 'A' <= folded && folded <= 'Z' { // U+212A, the Kelvin sign, is a k
		folded += 'a' - 'A'
	}
	return folded
}

// fold is appendFolded for definitions.
func fold(s string) string {
	if isFolded(s) {
		return s
	}
	return string(appendFolded(nil, s))
}
