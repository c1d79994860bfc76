package rules

import (
	"encoding/json"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// integerIn finds a readable boolean, number or date in a span: JSON.
func (f *field) integerIn(m *Model, s span[int64], now time.Time) (string, bool) {
	in := func(k int64) bool { return s.lo <= k && k < s.hi }
	switch f.typ {
	case booleanField:
		return strconv.FormatBool(s.lo == 1), true
	case dateField:
		for _, k := range []int64{s.lo, dateKey(now), s.hi - 1} {
			if in(k) && minDate <= k && k <= maxDate {
				return strconv.Quote(string(appendTime(nil, k, m.location))), true
			}
		}
		return "", false
	}
	lo, hi := numberOf(s.lo), numberOf(s.hi)
	candidates := []float64{lo, hi - 1, 0}
	if !in(numberKey(math.Trunc(lo))) || lo != math.Trunc(lo) {
		candidates = []float64{math.Ceil(lo), lo + 1, math.Floor(hi), hi - 1, 0, (lo + hi) / 2, lo}
	}
	for _, v := range candidates {
		if v-v == 0 && in(numberKey(v)) && f.allowsNumber(v) {
			return string(appendNumber(nil, v)), true
		}
	}
	return "", false
}

// textIn finds a readable text whose key is in a span.
func (f *field) textIn(s span[string]) (string, bool) {
	set := strSet{s}
	var candidates []string
	switch f.format {
	case semverText:
		candidates = versionsNear(s.lo)
	case addressText:
		candidates = addressesNear(s.lo)
	default:
		stem := strings.TrimRight(s.lo, "\x00")
		candidates = []string{"other", stem, stem + "x", stem + "-x", stem + "0"}
		if stem == "" {
			candidates = []string{"other", "x", "zz", "a", "A", "0", " ", ""}
		}
	}
	for _, c := range candidates {
		if key, ok := f.textKey(c); ok && strDomain.contains(set, key) {
			return c, true
		}
	}
	return "", false
}

// versionsNear returns candidates for a version in a span that begins at a key,
// which may be cut short: the candidates for the key of 2.1 are 2.1.0, 2.1.1,
// 2.2.0, 3.0.0, 2.1.0-0 and 2.1.1-0.
func versionsNear(key string) []string {
	var n [3]int
	for i := range n {
		if key == "" || len(key) <= int(key[0]) {
			key = ""
			break
		}
		digits := key[1 : 1+key[0]]
		key = key[1+len(digits):]
		// A key that bounds a range may have a digit one above 9.
		for _, c := range []byte(digits) {
			n[i] = n[i]*10 + int(c-'0')
		}
		if n[i] > math.MaxInt32 {
			return nil
		}
	}
	format := func(a, b, c int) string {
		return strconv.Itoa(a) + "." + strconv.Itoa(b) + "." + strconv.Itoa(c)
	}
	version := format(n[0], n[1], n[2])
	list := []string{version, format(n[0], n[1], n[2]+1), format(n[0], n[1]+1, 0), format(n[0]+1, 0, 0)}
	if ids := prereleaseOf(key); ids != "" {
		version += "-" + ids
		list = append(list, version, version+".0", version+"0", version+"-", version+"a")
	} else {
		list = append(list, version+"-0")
	}
	return append(list, format(n[0], n[1], n[2]+1)+"-0")
}

// prereleaseOf returns the pre-release at the end of a version's key. A key that
// is cut short gives the identifiers that are whole.
func prereleaseOf(key string) string {
	var ids []string
	for key != "" {
		kind := key[0]
		key = key[1:]
		var id string
		switch {
		case kind == identifierNumber && key != "" && int(key[0]) < len(key):
			id, key = key[1:1+key[0]], key[1+key[0]:]
		case kind == identifierText:
			id, key, _ = strings.Cut(key, string(rune(identifierEnd)))
		default:
			key = ""
		}
		if id != "" {
			ids = append(ids, id)
		}
	}
	return strings.Join(ids, ".")
}

// addressesNear returns candidates for an address in a span that begins at a key,
// which may be cut short.
func addressesNear(key string) []string {
	if key == "" {
		return []string{"0.0.0.0"}
	}
	var a netip.Addr
	switch rest := []byte(key[1:]); {
	case key[0] <= 4:
		a, _ = netip.AddrFromSlice(append(rest, make([]byte, 4)...)[:4])
	default:
		a, _ = netip.AddrFromSlice(append(rest, make([]byte, 16)...)[:16])
	}
	return []string{a.String(), a.Next().String(), "::", "2001:db8::1"}
}

// quoteJSON returns a text as a JSON string.
func quoteJSON(s string) string {
	b, _ := json.Marshal(s) // can't fail on a string
	return string(b)
}
