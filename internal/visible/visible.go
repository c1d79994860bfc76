// Package visible makes text fit for a terminal. Traces hold what callers and
// models sent, and definitions what their editors wrote; a terminal obeys the
// control characters in both. They are shown as escapes and never sent as they
// are.
package visible

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns text for one line of a terminal, with escapes in place of the
// characters that do not print.
func Line(text string) string { return escape(text, false) }

// Lines returns text for several lines: line breaks and tabs stay.
func Lines(text string) string { return escape(strings.ReplaceAll(text, "\r\n", "\n"), true) }

func escape(text string, lines bool) string {
	bad := func(r rune) bool { return !unicode.IsGraphic(r) && (!lines || r != '\n' && r != '\t') }
	if utf8.ValidString(text) && strings.IndexFunc(text, bad) < 0 {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case !bad(r):
			b.WriteString(text[i : i+size])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		default:
			writeCodePoint(&b, r)
		}
		i += size
	}
	return b.String()
}

func writeCodePoint(w io.Writer, r rune) {
	if r > 0xffff {
		r -= 0x10000
		fmt.Fprintf(w, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		return
	}
	fmt.Fprintf(w, `\u%04x`, r)
}

// JSON returns JSON for a terminal: the same value, in which the characters that
// do not print are escaped. In valid JSON they only occur in strings.
func JSON(line []byte) []byte {
	bad := func(r rune) bool { return !unicode.IsGraphic(r) && r != '\n' && r != '\t' && r != '\r' }
	if bytes.IndexFunc(line, bad) < 0 {
		return line
	}
	var b bytes.Buffer
	for _, r := range string(line) {
		if bad(r) {
			writeCodePoint(&b, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}

// forTerminal is an error whose text is made visible.
type forTerminal struct{ error }

func (e forTerminal) Error() string { return Lines(e.error.Error()) }
func (e forTerminal) Unwrap() error { return e.error }

// Error returns err with its text made visible, or nil for nil. errors.Is and
// errors.As see err.
func Error(err error) error {
	if err == nil {
		return nil
	}
	return forTerminal{err}
}
