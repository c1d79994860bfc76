package jsontext

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// Text is a text as it is inside a JSON string: valid UTF-8, escaped, without quotes
// around it. So a text of a request goes into the provider's request, and into the
// record, without being unescaped and escaped again. A constant without quotes,
// backslashes and control characters is its own Text; others are made by Escape.
type Text string

// Escape returns a text as AppendEscaped writes it. It copies nothing where nothing has
// to be escaped.
func Escape(text string) Text {
	size := EscapedLen(text)
	if size == len(text) {
		return Text(text)
	}
	return Text(View(AppendEscaped(make([]byte, 0, size), text)))
}

// Plain returns the text without escapes. It copies the text only if there are any.
func (t Text) Plain() string {
	return t.rewrite(func(dst []byte, r rune, _ Text) []byte { return utf8.AppendRune(dst, r) })
}

// Normal returns the text without the escapes of characters that need none, such as \/ and
// \u0041, behind which a search would not find them. It is no longer than the text.
func (t Text) Normal() Text {
	return Text(t.rewrite(func(dst []byte, r rune, escape Text) []byte {
		switch {
		case r == '"' || r == '\\':
			return append(dst, '\\', byte(r))
		case r < ' ':
			return append(dst, escape...)
		}
		return utf8.AppendRune(dst, r)
	}))
}

// rewrite returns the text with each escape replaced by what put appends for it and for
// its character.
func (t Text) rewrite(put func(dst []byte, r rune, escape Text) []byte) string {
	at := strings.IndexByte(string(t), '\\')
	if at < 0 {
		return string(t)
	}
	dst := make([]byte, 0, len(t))
	for ; at >= 0; at = strings.IndexByte(string(t), '\\') {
		dst = append(dst, t[:at]...)
		r, size := t[at:].unescape()
		dst = put(dst, r, t[at:at+size])
		t = t[at+size:]
	}
	return View(append(dst, t...))
}

// unescape returns the character of the escape that the text begins with, and the length
// of the escape.
func (t Text) unescape() (r rune, size int) {
	switch t[1] {
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'u':
		r, size = t.unit(), len(`\u0000`)
		if utf16.IsSurrogate(r) { // the first half of a pair
			return utf16.DecodeRune(r, t[size:].unit()), 2 * size
		}
		return r, size
	}
	return rune(t[1]), 2
}

// unit returns the number of the escape \u0000 that the text begins with.
func (t Text) unit() rune {
	n, _ := strconv.ParseUint(string(t[2:6]), 16, 16)
	return rune(n)
}

// View returns the bytes as a string without a copy. It is valid as long as b does not
// change.
func View(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Blank reports whether the text has white space alone.
func (t Text) Blank() bool {
	for t != "" {
		r, size := utf8.DecodeRuneInString(string(t))
		if r == '\\' {
			r, size = t.unescape()
		}
		if !unicode.IsSpace(r) {
			return false
		}
		t = t[size:]
	}
	return true
}

// MarshalJSON implements json.Marshaler.
func (t Text) MarshalJSON() ([]byte, error) { return t.Append(nil), nil }

// Append appends the text as a JSON string with its quotes.
func (t Text) Append(dst []byte) []byte {
	return append(append(append(dst, '"'), t...), '"')
}
