package caddymodule

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What is stored came from callers and models, definitions from whoever may edit
// them, and a terminal obeys control characters: they are shown, and never sent
// as they are.

// visible is text for one line of a terminal, with escapes in place of what
// does not print.
func visible(text string) string { return escape(text, false) }

// visibleLines is text for several lines: line breaks and tabs stay.
func visibleLines(text string) string { return escape(strings.ReplaceAll(text, "\r\n", "\n"), true) }

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

// visibleJSON is a line of JSON for a terminal: the same JSON, in which what
// does not print is escaped. It can only stand in strings there.
func visibleJSON(line []byte) []byte {
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

// visibleError is an error whose text is for a terminal.
type visibleError struct{ error }

func (e visibleError) Error() string { return visibleLines(e.error.Error()) }
func (e visibleError) Unwrap() error { return e.error }

// makeVisible is an error that says the same, for a terminal.
func makeVisible(err error) error {
	if err == nil {
		return nil
	}
	return visibleError{err}
}

// columns writes the rows of a table that come bit by bit: its columns only
// grow. tabwriter would need all rows, and counts the bytes of colours.
type columns struct {
	widths []int
	right  []bool // the columns of numbers
}

// cell is a cell of a table, in one colour.
type cell struct{ text, color string }

func plainCell(text string) cell { return cell{text: text} }

// write writes rows of cells whose texts are visible.
func (c *columns) write(b *bytes.Buffer, st styles, rows ...[]cell) {
	for _, row := range rows {
		for i, cell := range row {
			if i == len(c.widths) {
				c.widths = append(c.widths, 0)
			}
			c.widths[i] = max(c.widths[i], utf8.RuneCountInString(cell.text))
		}
	}
	for _, row := range rows {
		for len(row) > 0 && row[len(row)-1].text == "" {
			row = row[:len(row)-1]
		}
		for i, cell := range row {
			if i > 0 {
				b.WriteString("  ")
			}
			space := strings.Repeat(" ", c.widths[i]-utf8.RuneCountInString(cell.text))
			if i < len(c.right) && c.right[i] {
				b.WriteString(space)
			}
			if cell.color != "" {
				b.WriteString(cell.color + cell.text + st.reset)
			} else {
				b.WriteString(cell.text)
			}
			if i < len(row)-1 && (i >= len(c.right) || !c.right[i]) {
				b.WriteString(space)
			}
		}
		b.WriteByte('\n')
	}
}
