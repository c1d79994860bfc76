package redact

import "bytes"

// maxGroups bounds the groups of a number's digits.
const maxGroups = 8

// number is a number that is written in groups of digits.
type number struct {
	digits []byte            // of all groups; backed by the array of its parser
	groups [maxGroups]int    // how many digits each has
	starts [maxGroups]int    // where each begins in the text
	seps   [maxGroups]string // the separator after each; empty after the last
	n      int               // how many groups there are
	more   bool              // whether it has further groups
}

// findNumbers finds telephone and card numbers.
func (f *finder) findNumbers() {
	text := f.text
	var buffer [24]byte
	last := 0 // where the last finding ended
	for i := 0; i < len(text); {
		if !digit[text[i]] {
			i++
			continue
		}
		next := i + stretch(text[i:], digit)
		first := i < 2 || separates[text[i-1]] == "" || !digit[text[i-2]] || last == i-1
		card := f.r.detectors&Card != 0 && beginsCard(text[i], next-i, first)
		phone := f.r.detectors&Phone != 0 && beginsPhone(text[max(0, i-1)], next-i, first)
		if card || phone {
			num := parseNumber(text, i, buffer[:0])
			found := len(f.spans)
			if card {
				f.card(i, &num)
			}
			if phone && found == len(f.spans) {
				f.phone(i, &num)
			}
			if found < len(f.spans) {
				last = f.spans[found].end
				next = last
			}
		}
		i = next
	}
}

// beginsCard reports whether a card number may begin with a group of n digits, of
// which this is the first. first says that no group is before it: most groups of
// four are in tables.
func beginsCard(d byte, n int, first bool) bool {
	return d >= '2' && d <= '6' && (n == 4 && first || n >= 14 && n <= 19)
}

// beginsPhone reports whether a telephone number may begin with a group of n digits
// after c.
func beginsPhone(c byte, n int, first bool) bool {
	if c == '(' {
		return n == 3
	}
	return first && n <= 15
}

// parseNumber reads the groups of digits from start on.
func parseNumber(text []byte, start int, buffer []byte) (num number) {
	num.digits = buffer
	for i := start; ; {
		n := stretch(text[i:], digit)
		if num.n == maxGroups || len(num.digits)+n > cap(num.digits) {
			num.more = true
			return num
		}
		num.digits = append(num.digits, text[i:i+n]...)
		num.groups[num.n], num.starts[num.n] = n, i
		num.n++
		i += n
		sep := separator(text[i:])
		if sep == "" {
			return num
		}
		num.seps[num.n-1] = sep
		i += len(sep)
	}
}

// separators are the texts that may be between two groups.
var separators = []string{" ", "-", ".", "/", ") ", ")", " (", "(", " (0) ", " (0)", "(0) ", "(0)", ")-"}

// separates are the separators of one character.
var separates = [256]string{' ': " ", '-': "-", '.': ".", '/': "/"}

// separator returns the separator that text begins with, where digits follow it.
func separator(text []byte) string {
	if len(text) < 2 {
		return ""
	}
	switch text[0] {
	case ' ', '-', '.', '/':
		if digit[text[1]] {
			return separates[text[0]]
		}
		if text[1] != '(' {
			return ""
		}
	case '(', ')':
	default:
		return ""
	}
	found := ""
	for _, s := range separators {
		if len(s) > len(found) && len(text) > len(s) && string(text[:len(s)]) == s && digit[text[len(s)]] {
			found = s
		}
	}
	return found
}

// end returns where the first n groups end in the text.
func (num *number) end(n int) int { return num.starts[n-1] + num.groups[n-1] }

// are reports whether the first groups have these lengths and are separated by
// sep.
func (num *number) are(sep string, lengths ...int) bool {
	if num.n < len(lengths) {
		return false
	}
	for i, n := range lengths {
		if num.groups[i] != n || i < len(lengths)-1 && num.seps[i] != sep {
			return false
		}
	}
	return true
}

// sum returns how many digits the first n groups have.
func (num *number) sum(n int) int {
	total := 0
	for _, g := range num.groups[:n] {
		total += g
	}
	return total
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

// cardGroups are the groups that are printed on cards. The first with a right check
// digit counts.
var cardGroups = [][]int{{4, 4, 4, 4, 3}, {4, 4, 4, 4}, {4, 6, 5}, {4, 6, 4}}

// card takes the card number that begins at start.
func (f *finder) card(start int, num *number) {
	if n := num.groups[0]; n >= 14 && isCard(num.digits[:n], false) && f.stands(start, num.end(1)) {
		f.add(start, num.end(1), "card")
		return
	}
	for _, sep := range [...]string{" ", "-"} {
		for _, groups := range cardGroups {
			if !num.are(sep, groups...) {
				continue
			}
			n := len(groups)
			inTable := num.n > n && num.seps[n-1] == sep && num.groups[n] >= 4
			if !inTable && isCard(num.digits[:num.sum(n)], true) && f.stands(start, num.end(n)) {
				f.add(start, num.end(n), "card")
				return
			}
		}
	}
}

// isCard reports whether a card may have the number, by its prefix, its length and its
// check digit (ISO/IEC 7812-1, annex B). A number that is not in groups must be
// neither round nor one of those of 19 digits that are as often 64 random bits.
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

// phone takes the telephone number whose first digit is at start.
func (f *finder) phone(start int, num *number) {
	begin, n := start, 0
	switch d := num.digits; {
	case start > 0 && f.text[start-1] == '+':
		begin, n = start-1, num.international()
	case d[0] == '0' && len(d) > 2 && d[1] == '0':
		n = num.doubleZero()
	case d[0] == '0':
		n = num.national()
	case start > 0 && f.text[start-1] == '(':
		begin, n = start-1, num.american(0, ") ", ")")
	case num.groups[0] == 1 && d[0] == '1':
		n = num.american(1, "-", ".", " ", " (", "(")
	default:
		n = num.american(0, "-", ".")
	}
	if n > 0 && f.stands(begin, num.end(n)) && (n == num.n || num.seps[n-1] == " ") {
		f.add(begin, num.end(n), "phone")
	}
}

// international returns how many groups make a number that begins with a plus.
func (num *number) international() int {
	if num.digits[0] == '0' {
		return 0
	}
	if num.digits[0] == '1' { // North America, with exactly ten digits after it
		for n := 1; n <= num.n; n++ {
			if num.sum(n) == 11 && num.digits[1] >= '2' && num.digits[4] >= '2' {
				return n
			}
		}
		return 0
	}
	most := 1
	for most < num.n && (most == 1 || num.groups[most-1] < 6) { // a long group is the last
		most++
	}
	for n := most; n > 0; n-- {
		total := num.sum(n)
		if total >= 8 && total <= 15 && (n > 1 || total >= 10) && num.plausible(1, n) {
			return n
		}
	}
	return 0
}

// doubleZero returns how many groups make a number that begins with 00 for the plus.
func (num *number) doubleZero() int {
	total := num.sum(num.n)
	if num.more || num.digits[2] == '0' || num.n < 2 || num.groups[0] < 3 || num.groups[0] > 5 || num.seps[0] == "." || total < 11 || total > 16 || !num.plausible(1, num.n) {
		return 0
	}
	return num.n
}

// plausible reports whether the groups between are as people group digits: of at least
// two digits, and not separated like the parts of a version.
func (num *number) plausible(from, to int) bool {
	for i := from; i < to; i++ {
		if num.groups[i] < 2 {
			return false
		}
	}
	return true
}

// national returns how many groups make a number that begins with one 0: all or none,
// because a number with further groups is more often a list.
func (num *number) national() int {
	total := num.sum(num.n)
	g, seps := num.groups, num.seps
	if num.more || num.n < 2 || g[0] < 2 || g[0] > 5 || total < 9 || total > 12 || !num.plausible(1, num.n) {
		return 0
	}
	if num.n == 2 { // 030 1234567, 0151/23456789, 06-12345678
		switch {
		case seps[0] != " " && seps[0] != "/" && (seps[0] != "-" || total < 10):
			return 0
		case g[1] < 5 || g[1] > 8 || g[0] == 2 && g[1] != 8:
			return 0
		}
		return 2
	}
	if total > 11 || seps[0] == "." && seps[1] != "." {
		return 0
	}
	for i := 1; i < num.n-1; i++ {
		if seps[i] != seps[1] {
			return 0
		}
	}
	switch {
	case seps[1] == ".": // 01.23.45.67.89, 0470/12.34.56
		if num.n < 4 || num.n > 5 {
			return 0
		}
	case seps[1] == "-": // 03-1234-5678
		if seps[0] != "-" || num.n == 3 && (g[1] != 4 || g[2] != 4) {
			return 0
		}
	case seps[1] != " ":
		return 0
	}
	most := 5
	if num.n > 3 { // 06 12 34 56 78, 044 668 18 00, and no date
		most = 3
	}
	for i := 1; i < num.n; i++ {
		if g[i] > most {
			return 0
		}
	}
	return num.n
}

// american returns how many groups make a number of North America, of which those
// before from are a prefix. seps are the separators allowed before the exchange:
// after the area or, where there is a prefix, after that.
func (num *number) american(from int, seps ...string) int {
	n := from + 3
	if num.n < n || num.groups[from] != 3 || num.groups[from+1] != 3 || num.groups[from+2] != 4 ||
		num.digits[from] < '2' || num.digits[from+3] < '2' {
		return 0
	}
	for _, sep := range seps {
		if num.seps[0] != sep {
			continue
		}
		last := num.seps[n-2]
		switch sep {
		case "-", ".":
			if last == sep && num.seps[n-3] == sep {
				return n
			}
		default:
			if last == "-" || last == "." || last == " " {
				return n
			}
		}
	}
	return 0
}
