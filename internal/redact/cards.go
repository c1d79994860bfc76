package redact

import "bytes"

// findCards finds numbers of payment cards.
func (f *finder) findCards() {
	for i := 0; i < len(f.text); {
		if !digit[f.text[i]] {
			i++
			continue
		}
		n := stretch(f.text[i:], digit)
		end := f.card(i, n)
		if end > 0 {
			f.add(i, end, "card")
		}
		i = max(i+n, end)
	}
}

// cardGroups are the groups of digits that are printed on cards. The first with a
// right check digit counts.
var cardGroups = [][]int{{4, 4, 4, 4, 3}, {4, 4, 4, 4}, {4, 6, 5}, {4, 6, 4}}

// card returns the end of the card number that begins with a group of n digits at
// start, or 0 if none does.
func (f *finder) card(start, n int) int {
	if d := f.text[start]; d < '2' || d > '6' {
		return 0
	}
	if n >= 14 && n <= 19 && isCard(f.text[start:start+n], false) && f.stands(start, start+n) {
		return start + n
	}
	// Most groups of four are in tables: a card number has none before it.
	if n != 4 || start >= 2 && groupEnd[f.text[start-1]] && digit[f.text[start-2]] {
		return 0
	}
	for _, groups := range cardGroups {
		if end := f.grouped(start, groups); end > 0 {
			return end
		}
	}
	return 0
}

// groupEnd are the characters that are between groups of digits.
var groupEnd = classOf(" -./")

// grouped returns the end of the card number that has these groups, all with a blank or
// all with a hyphen between, or 0.
func (f *finder) grouped(start int, groups []int) int {
	at := start + groups[0]
	if at == len(f.text) || f.text[at] != ' ' && f.text[at] != '-' {
		return 0
	}
	separator := f.text[at]
	number := append(make([]byte, 0, 19), f.text[start:at]...)
	for _, n := range groups[1:] {
		if at == len(f.text) || f.text[at] != separator || stretch(f.text[at+1:], digit) != n {
			return 0
		}
		number = append(number, f.text[at+1:at+1+n]...)
		at += 1 + n
	}
	inTable := at < len(f.text) && f.text[at] == separator && stretch(f.text[at+1:], digit) >= 4
	if inTable || !isCard(number, true) || !f.stands(start, at) {
		return 0
	}
	return at
}

// stands reports whether the text from start to end is no part of a word, of an
// identifier, of a larger number, of a price or of a path.
func (f *finder) stands(start, end int) bool {
	if !f.boundary(start) {
		return false
	}
	if start > 0 {
		switch f.text[start-1] {
		case '-', '.', '+', '#', '$', '/', '%':
			return false
		}
	}
	if end == len(f.text) {
		return true
	}
	c := f.text[end]
	switch {
	case alnum[c], c == '_', c == '%':
		return false
	case c == '.', c == '-', c == '/':
		return end+1 == len(f.text) || !alnum[f.text[end+1]]
	}
	return true
}

// isCard reports whether a card may have the number, by its prefix, its length and its
// check digit (ISO/IEC 7812-1, annex B). A number that is not in groups must be
// neither round nor a number of 19 digits that is as often 64 random bits.
func isCard(digits []byte, grouped bool) bool {
	if !grouped && bytes.HasSuffix(digits, []byte("000000")) {
		return false
	}
	prefix := 0
	for _, d := range digits[:4] {
		prefix = 10*prefix + int(d-'0')
	}
	n := len(digits)
	var known bool
	switch {
	case prefix/1000 == 4: // Visa
		known = n == 16 || n == 19 && grouped
	case prefix >= 5100 && prefix < 5600, prefix >= 2221 && prefix <= 2720: // Mastercard
		known = n == 16
	case prefix/100 == 34, prefix/100 == 37: // American Express
		known = n == 15
	case prefix == 6011, prefix >= 6440 && prefix < 6600: // Discover
		known = n >= 16
	case prefix >= 3528 && prefix < 3590: // JCB
		known = n >= 16
	case prefix/10 >= 300 && prefix/10 <= 305, prefix/100 == 36, prefix/100 == 38, prefix/100 == 39: // Diners Club
		known = n == 14 || n == 16
	case prefix/100 == 62: // UnionPay
		known = n >= 16
	}
	if !known {
		return false
	}
	sum := 0
	for i, d := range digits {
		v := int(d - '0')
		if (len(digits)-i)%2 == 0 {
			if v *= 2; v > 9 {
				v -= 9
			}
		}
		sum += v
	}
	return sum%10 == 0
}
