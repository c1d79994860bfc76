package document

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// cursor finds offsets in a file by line and column. Ascending positions together cost
// one pass over the file.
type cursor struct {
	text         string
	at           int // the offset of the character at line and column
	line, column int
}

// seek goes to a position, or to the end of its line or of the file, whichever is
// first.
func (c *cursor) seek(line, column int) int {
	if c.line == 0 || line < c.line || line == c.line && column < c.column {
		c.at, c.line, c.column = 0, 1, 1
	}
	for c.line < line {
		i := strings.IndexByte(c.text[c.at:], '\n')
		if i < 0 {
			c.skip(utf8.RuneCountInString(c.text[c.at:]))
			return c.at
		}
		c.at, c.line, c.column = c.at+i+1, c.line+1, 1
	}
	for c.column < column && c.at < len(c.text) && c.text[c.at] != '\n' {
		c.skip(1)
	}
	return c.at
}

// skip skips n characters.
func (c *cursor) skip(n int) {
	for ; n > 0 && c.at < len(c.text); n-- {
		if c.text[c.at] == '\n' {
			c.line, c.column = c.line+1, 0
		}
		_, size := utf8.DecodeRuneInString(c.text[c.at:])
		c.at += size
		c.column++
	}
}

// skipBlanks skips white space and comments.
func (c *cursor) skipBlanks() {
	for comment := false; c.at < len(c.text); c.skip(1) {
		switch b := c.text[c.at]; {
		case b == '\n':
			comment = false
		case comment, b == ' ', b == '\t':
		case b == '#':
			comment = true
		default:
			return
		}
	}
}

// lineOf returns the line of an offset in two parts: before it and from it on.
func (c *cursor) lineOf(at int) (before, after string) {
	before = c.text[strings.LastIndexByte(c.text[:at], '\n')+1 : at]
	after, _, _ = strings.Cut(c.text[at:], "\n")
	return before, after
}

// syntaxError reports the library's syntax error in words for people who do not know a
// YAML parser's terms.
func (r *yamlReader) syntaxError(err error) {
	e, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		_ = r.fail(Position{r.file, 1, 1}, "invalid YAML: %v", err)
		return
	}
	pos := Position{r.file, max(e.Mark.Line, 1), max(e.Mark.Column, 1)}
	at := r.src.seek(pos.Line, pos.Column)
	// The mistake is at the beginning of the unclosed value, not at the end of the
	// file.
	begin := Position{r.file, e.ContextMark.Line, e.ContextMark.Column}
	before, after := r.src.lineOf(at)

	if strings.Contains(e.Message, " tab ") || strings.HasPrefix(after, "\t") {
		_ = r.fail(pos, "a tab can't indent a line in YAML: use spaces")
		return
	}
	switch name, isAlias := strings.CutPrefix(e.Message, "unknown anchor '"); {
	case isAlias:
		name = strings.TrimSuffix(name, "' referenced")
		_ = r.fail(pos, `*%s is read as a YAML alias and no anchor &%s stands before it: if it is text or a pattern, quote it ("*%s")`, name, name, name)
		return
	case strings.HasPrefix(e.ContextMsg, "while increasing "):
		_ = r.checkDepth(MaxDepth+1, pos)
		return
	}
	switch e.ContextMsg {
	case "while scanning an alias", "while scanning an anchor":
		sign := r.src.seek(begin.Line, begin.Column)
		_, word := r.src.lineOf(sign)
		_ = r.fail(begin, "%s", indicator(word))
		return
	case "while scanning a quoted scalar":
		if strings.Contains(e.Message, "escape") || strings.Contains(e.Message, "hexadecimal") {
			_ = r.fail(pos, `invalid YAML: malformed escape in double-quoted text: write \\ for a backslash, or put the text into single quotes`)
			return
		}
		_ = r.fail(begin, "invalid YAML: the text that begins here has no closing quote")
		return
	case "while scanning a block scalar":
		_ = r.fail(pos, "invalid YAML: a block of text begins on the line behind | or >: unexpected %q", shorten(after))
		return
	}
	switch e.Message {
	case "could not find expected ':'":
		if !r.misplaced(begin) {
			r.noColon(begin)
		}
	case "mapping values are not allowed in this context":
		if r.misplaced(pos) || r.tooDeep(pos) {
			return
		}
		if word := glued.FindString(r.lineAbove(pos.Line)); word != "" {
			_ = r.fail(pos, "invalid YAML: a colon can't stand here: is a space missing after the colon in %q, in the line above?", shorten(word))
			return
		}
		_ = r.fail(pos, `invalid YAML: a colon can't stand here: check the indentation, or quote text that has ": " in it`)
	case "found character that cannot start any token":
		_ = r.fail(pos, "%s", indicator(after))
	case "did not find expected ',' or ']'", "did not find expected ',' or '}'":
		if strings.TrimSpace(r.src.text[at:]) == "" {
			_ = r.fail(begin, "invalid YAML: what begins here has no end: %s is missing", closing(e))
			return
		}
		if strings.HasSuffix(before, ":") {
			pos.Column--
			_ = r.fail(pos, "a space is missing after the colon; if it is part of the text, quote the text")
			return
		}
		_ = r.fail(pos, "invalid YAML: unexpected %q where a comma or %s has to come: %s", shorten(after), closing(e), unexpected(before))
	default:
		if strings.TrimSpace(r.src.text[at:]) == "" {
			last := len(strings.TrimRight(r.src.text, " \t\n")) - 1
			_ = r.fail(offsetPosition(r.file, r.src.text, last), "invalid YAML: the file ends here too early: a list or mapping in [ ] or { } has no end")
			return
		}
		if r.misplaced(pos) {
			return
		}
		_ = r.fail(pos, "invalid YAML: unexpected %q: %s", shorten(after), unexpected(before))
	}
}

// misplaced reports a member whose indentation fits no list or mapping above it, and
// returns whether there is one.
func (r *yamlReader) misplaced(pos Position) bool {
	before, after := r.src.lineOf(r.src.seek(pos.Line, pos.Column))
	indent := len(before)
	if indent == 0 || strings.TrimLeft(before, " ") != "" || !strings.Contains(after, ":") {
		return false
	}
	columns := r.columnsAbove(pos.Line)
	if slices.Contains(columns, indent) {
		return false
	}
	words := make([]string, len(columns))
	for i, column := range columns {
		words[i] = strconv.Itoa(column)
	}
	_ = r.fail(pos, "this line is indented by %d, the lines above it by %s: indent it like one of them", indent, strings.Join(words, " or "))
	return true
}

// columnsAbove returns the indentations of the lists and mappings that are open at a
// line, the innermost last, four at most.
func (r *yamlReader) columnsAbove(line int) []int {
	var columns []int
	for _, text := range slices.Backward(strings.Split(r.src.text[:r.src.seek(line, 1)], "\n")) {
		body := strings.TrimLeft(text, " ")
		if column := len(text) - len(body); body != "" && body[0] != '#' && (len(columns) == 0 || column < columns[len(columns)-1]) {
			columns = append(columns, column)
		}
	}
	columns = columns[:min(len(columns), 4)]
	slices.Reverse(columns)
	return columns
}

// tooDeep reports a member that is indented by more than the one above it, which has
// a value already, and returns whether it is that.
func (r *yamlReader) tooDeep(pos Position) bool {
	_, line := r.src.lineOf(r.src.seek(pos.Line, 1))
	above := member.FindStringSubmatch(r.lineAbove(pos.Line))
	indent := len(line) - len(strings.TrimLeft(line, " "))
	if above == nil || indent <= len(above[1]) || strings.ContainsAny(above[2], "|>[{&*!\"'#") {
		return false
	}
	_ = r.fail(Position{r.file, pos.Line, indent + 1}, "this line is indented by more than the one above it, which has a value already: indent it by %d, or quote that value if it goes on here", len(above[1]))
	return true
}

// member finds the indentation of a member, behind the dashes of lists, and the
// first character of its value.
var member = regexp.MustCompile(`^([ -]*)[A-Za-z_][\w.-]*: +(\S)`)

// indicator returns the message for a plain value that can't begin with its first
// character.
func indicator(s string) string {
	word := s[:1+strings.IndexAny(s[1:]+" ", " \t,[]{}")]
	return fmt.Sprintf("a plain value can't begin with %s, quote it (\"%s\")", s[:1], shorten(word))
}

// lineAbove returns the line before another, or "".
func (r *yamlReader) lineAbove(line int) string {
	if line < 2 {
		return ""
	}
	_, text := r.src.lineOf(r.src.seek(line-1, 1))
	return text
}

// glued finds a key without a space after the colon.
var glued = regexp.MustCompile(`^[ \t]*(?:- +)*[A-Za-z_][\w.-]*:[^\s/:].*`)

// unexpected returns how to mend text that the library did not expect.
func unexpected(before string) string {
	if strings.HasSuffix(before, `"`) || strings.HasSuffix(before, "'") {
		return `the quote before it ends a text, write \" or '' for a quote in one`
	}
	if braces.MatchString(before) {
		return "quote text that begins with {{"
	}
	if strings.TrimLeft(before, " ") == "" {
		return "check its indentation, or quote it if it is text"
	}
	return "quote it if it is text"
}

// braces finds a plain value that begins with {{.
var braces = regexp.MustCompile(`(?:^|[-:,\[{] +)\{\{`)

// noColon reports text where a member is expected.
func (r *yamlReader) noColon(pos Position) {
	_, line := r.src.lineOf(r.src.seek(pos.Line, pos.Column))
	if word := glued.FindString(line); word != "" {
		_ = r.fail(pos, "a space is missing after the colon in %q", shorten(word))
		return
	}
	_ = r.fail(pos, "invalid YAML: %q has no colon behind it: indent it by more than the line it belongs to, or make it a member (name: value)", shorten(line))
}

// closing returns the bracket that the library misses.
func closing(e *yaml.LoadError) string { return e.Message[len(e.Message)-2 : len(e.Message)-1] }
