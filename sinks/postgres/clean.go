package postgres

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const replacement = "\uFFFD"

// cleanText returns s as PostgreSQL takes it: UTF-8 without NUL. Other bytes become
// U+FFFD.
func cleanText(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, replacement)
	}
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", replacement)
	}
	return s
}

// cleanJSON returns JSON that jsonb accepts: a NUL or half of a surrogate pair in
// a string becomes U+FFFD. Text that is not JSON stays as it is.
func cleanJSON(document []byte) []byte {
	if !utf8.Valid(document) {
		document = bytes.ToValidUTF8(document, []byte(replacement))
	}
	if !bytes.Contains(document, []byte(`\u`)) {
		return document
	}
	clean := make([]byte, 0, len(document)+16)
	for {
		escape := bytes.IndexByte(document, '\\')
		if escape < 0 || escape+1 >= len(document) {
			return append(clean, document...)
		}
		clean = append(clean, document[:escape]...)
		document = document[escape:]
		length := 2 // of the escape
		if unit, ok := unicodeEscape(document); ok {
			length = 6
			switch {
			case unit == 0:
				clean, document = append(clean, replacement...), document[length:]
				continue
			case utf16.IsSurrogate(rune(unit)):
				second, _ := unicodeEscape(document[length:])
				if utf16.DecodeRune(rune(unit), rune(second)) == utf8.RuneError {
					clean, document = append(clean, replacement...), document[length:]
					continue
				}
				length *= 2
			}
		}
		clean, document = append(clean, document[:length]...), document[length:]
	}
}

// unicodeEscape reads the escape \uXXXX that text begins with.
func unicodeEscape(text []byte) (unit uint16, ok bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return uint16(n), err == nil
}
