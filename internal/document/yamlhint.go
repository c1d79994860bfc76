package document

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// openConflict is the message about what a merge left.
const openConflict = "two versions were merged here and the conflict is still open: keep what is right, and delete the lines that begin with <<<<<<<, ======= and >>>>>>>"

// marker finds what a merge left in a file that can't be read, also where an editor
// has indented it.
var marker = regexp.MustCompile(`(?m)^[ \t]*(<<<<<<< |>>>>>>> |=======$)`)

// explain reports a mistake whose cause is known better than by what the library did
// not expect, and returns whether there is one. at is the offset of pos.
func (r *yamlReader) explain(pos Position, at int) bool {
	text := r.src.text
	line := r.src.seek(pos.Line, 1)
	for _, m := range marker.FindAllStringSubmatchIndex(text, -1) {
		// A line of = may also underline a heading in a text.
		if text[m[2]] != '=' || m[0] == line {
			_ = r.fail(offsetPosition(r.file, text, m[2]), openConflict)
			return true
		}
	}
	if begin, end := quotedBefore(text, at); begin >= 0 {
		r.quoteMistake(begin, end)
		return true
	}
	before, after := r.src.lineOf(at)
	above := r.lineAbove(pos.Line)
	for i, line := range []string{above, before + after} {
		// Keyboards of East Asia write a colon of their own.
		if j := strings.Index(line, "："); j >= 0 && !strings.Contains(line[:j], ": ") {
			_ = r.fail(Position{r.file, pos.Line - 1 + i, 1 + utf8.RuneCountInString(line[:j])}, "： is not YAML's colon: write : and a space")
			return true
		}
	}
	if strings.TrimLeft(before, " ") != "" || before == "" {
		return false
	}
	indent := len(before)
	over, header, columns := r.linesOver(pos.Line, indent)
	switch {
	case blockHeader.MatchString(header) && over == 0:
		_ = r.fail(pos, "the block of text that begins here must be indented by more than the line above it, which is indented by %d", len(header)-len(strings.TrimLeft(header, " ")))
	case blockHeader.MatchString(header):
		_ = r.fail(pos, "this line is indented by less than the block of text above it, which ends here: indent it by %d", over)
	case !slices.Contains(columns, indent) && strings.Contains(after, ":"):
		_ = r.fail(pos, "this line is indented by %d, the lines above it by %s: indent it like one of them", indent, numbers(columns))
	default:
		return false
	}
	return true
}

// blockHeader finds a line whose value is a block of text.
var blockHeader = regexp.MustCompile(`[:-] +[|>][0-9+-]*(?: +#.*)?$`)

// linesOver walks up from a line, over those that are indented by more than it. It
// returns the indentation of the first of these below header, the line at which it
// ends, and the indentations of the lists and mappings that are open there, four at
// most, with the innermost last.
func (r *yamlReader) linesOver(line, indent int) (over int, header string, columns []int) {
	least := -1
	lines := strings.Split(r.src.text[:r.src.seek(line, 1)], "\n")
	for _, text := range slices.Backward(lines) {
		body := strings.TrimLeft(text, " ")
		if body == "" || body[0] == '#' {
			continue
		}
		column := len(text) - len(body)
		if header == "" {
			if column > indent {
				over = column
			} else {
				header = text
			}
		}
		if least < 0 || column < least {
			columns, least = append(columns, column), column
		}
	}
	const most = 4
	columns = columns[:min(len(columns), most)]
	slices.Reverse(columns)
	return over, header, columns
}

// numbers lists numbers for a message.
func numbers(list []int) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = fmt.Sprint(n)
	}
	return strings.Join(words, " or ")
}

// quotedBefore finds a quoted text that ends before an offset, but for blanks. It
// returns the offsets of its quotes, or -1. For example, 'Don't has one before the t.
func quotedBefore(text string, at int) (begin, end int) {
	at = len(strings.TrimRight(text[:at], " \t"))
	if at == 0 || text[at-1] != '"' && text[at-1] != '\'' {
		return -1, -1
	}
	line := 0 // where the line begins
	for i := 0; i < at; i++ {
		switch c := text[i]; {
		case c == '\n':
			line = i + 1
		case c == '#' && (i == 0 || strings.IndexByte(" \t\n", text[i-1]) >= 0):
			length := strings.IndexByte(text[i:], '\n')
			if length < 0 {
				return -1, -1
			}
			i += length
			line = i + 1
		case (c == '"' || c == '\'') && beginsValue(text[line:i]):
			end := closingQuote(text, i)
			if end < 0 || end >= at {
				return -1, -1
			}
			if end == at-1 {
				return i, end
			}
			if length := strings.LastIndexByte(text[i:end], '\n'); length >= 0 {
				line = i + length + 1
			}
			i = end
		}
	}
	return -1, -1
}

// beginsValue reports whether a value may begin behind the beginning of a line.
func beginsValue(line string) bool {
	trimmed := strings.TrimRight(line, " \t")
	return trimmed == "" || strings.IndexByte("[{,", trimmed[len(trimmed)-1]) >= 0 ||
		len(trimmed) < len(line) && strings.IndexByte(":-?", trimmed[len(trimmed)-1]) >= 0
}

// closingQuote returns the offset of the quote that ends the text that begins at an
// offset, or -1.
func closingQuote(text string, begin int) int {
	quote := text[begin]
	for i := begin + 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote == '"':
			i++
		case text[i] != quote:
		case quote == '\'' && i+1 < len(text) && text[i+1] == quote:
			i++
		default:
			return i
		}
	}
	return -1
}

// quoteMistake reports a quoted text behind whose end there is more.
func (r *yamlReader) quoteMistake(begin, end int) {
	data := r.src.text
	if lines := strings.Count(data[begin:end], "\n"); lines > 0 {
		_ = r.fail(offsetPosition(r.file, data, begin), "invalid YAML: the text that begins here ends at the next quote, in line %d: is its closing quote missing?", offsetPosition(r.file, data, end).Line)
		return
	}
	hint := `write \" for a quote in it, or put the text into single quotes`
	if data[end] == '\'' {
		hint = "write '' for an apostrophe in it, or put the text into double quotes"
	}
	_ = r.fail(offsetPosition(r.file, data, end), "invalid YAML: this quote ends the text: %s", hint)
}

// hidden are characters that can't be told from others, or can't be seen at all.
var hidden = map[rune]string{
	0xa0: "a no-break space", 0x202f: "a narrow no-break space", 0x3000: "a wide space",
	0xad: "a soft hyphen", 0x200b: "a zero-width space", 0x2060: "a word joiner", 0xfeff: "a byte order mark",
}

// Hidden returns what a name or a word has that can't be seen, for messages: a space
// of another kind at its ends, or a character without width anywhere. It returns ""
// where there is nothing of this kind.
func Hidden(s string) string {
	for i, c := range s {
		what, ok := hidden[c]
		if !ok {
			continue
		}
		if inner := strings.HasSuffix(what, " space") && c != 0x200b; !inner || i == 0 || i+utf8.RuneLen(c) == len(s) {
			return fmt.Sprintf("%s (U+%04X)", what, c)
		}
	}
	return ""
}
