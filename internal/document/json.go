package document

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonReader builds nodes from a JSON file (RFC 8259). encoding/json cannot do that:
// it neither gives the positions of tokens nor refuses duplicate names, and it
// replaces invalid text in strings.
type jsonReader struct {
	builder
	text string
	at   int // the offset of the next byte
	line int
	// lineStart is the offset of that line. The characters of the line are counted
	// up to the offset counted, so that all positions together cost one pass.
	lineStart, counted, characters int
}

func parseJSON(file, text string, errs *Errors) *Node {
	r := &jsonReader{builder: builder{file: file, errs: errs, limit: MaxNodes, instead: "split it"}, text: text, line: 1}
	r.space()
	n, err := r.value(1)
	if err != nil {
		return nil
	}
	if r.space(); r.at < len(text) {
		_ = r.unexpected("after the end of the value, of which a file has one")
		return nil
	}
	return n
}

// space skips white space.
func (r *jsonReader) space() {
	for ; r.at < len(r.text); r.at++ {
		switch r.text[r.at] {
		case '\n':
			r.line++
			r.lineStart, r.counted, r.characters = r.at+1, r.at+1, 0
		case ' ', '\t', '\r':
		default:
			return
		}
	}
}

// position returns the position of the next character.
func (r *jsonReader) position() Position {
	r.characters += utf8.RuneCountInString(r.text[r.counted:r.at])
	r.counted = r.at
	return Position{r.file, r.line, 1 + r.characters}
}

// peek returns the next byte, or 0 at the end.
func (r *jsonReader) peek() byte {
	if r.at == len(r.text) {
		return 0
	}
	return r.text[r.at]
}

// mistake reports a mistake at the next character.
func (r *jsonReader) mistake(format string, args ...any) error {
	return r.fail(r.position(), "invalid JSON: %s", fmt.Sprintf(format, args...))
}

// unexpected reports the next character as a mistake, because something else is
// expected there.
func (r *jsonReader) unexpected(where string) error {
	if r.at == len(r.text) {
		return r.mistake("the file ends too early, %s", where)
	}
	c, _ := utf8.DecodeRuneInString(r.text[r.at:])
	word := strings.ToLower(jsonWord.FindString(r.text[r.at:]))
	switch {
	case c == '/' || c == '#':
		return r.mistake("unexpected %q %s: JSON has no comments, delete it", c, where)
	case word == "true" || word == "false" || word == "null":
		return r.mistake("unexpected %q %s: write %s", c, where, word)
	case word == "none" || word == "undefined":
		return r.mistake("unexpected %q %s: write null", c, where)
	case word == "nan" || word == "infinity":
		return r.mistake("unexpected %q %s: JSON has numbers with digits only, and null", c, where)
	case r.at == 0 && (word != "" || c == '-'):
		return r.mistake("unexpected %q %s: if the file is YAML, end its name in .yaml", c, where)
	}
	switch c {
	case '\'', '“', '”', '‘', '’':
		return r.mistake("unexpected %q %s: text stands in double quotes", c, where)
	}
	return r.mistake("unexpected %q %s", c, where)
}

// value reads a value at a depth.
func (r *jsonReader) value(depth int) (*Node, error) {
	n := &Node{Shape: Scalar, Pos: r.position(), JSON: true}
	if err := r.count(n.Pos); err != nil {
		return nil, err
	}
	switch c := r.peek(); {
	case c == '[' || c == '{':
		if err := r.checkDepth(depth, n.Pos); err != nil {
			return nil, err
		}
		n.JSON = false
		r.at++
		if c == '[' {
			n.Shape = Sequence
			return n, r.items(n, depth)
		}
		n.Shape = Mapping
		return n, r.members(n, depth)
	case c == '"':
		n.Quoted = true
		var err error
		n.Text, err = r.string()
		return n, err
	case c == '-' || isDigit(c):
		n.Text = r.number()
		if n.Text == "" {
			return nil, r.unexpected("within a number")
		}
		return n, nil
	}
	for _, word := range []string{"null", "true", "false"} {
		if strings.HasPrefix(r.text[r.at:], word) {
			r.at += len(word)
			n.Text = word
			return n, nil
		}
	}
	return nil, r.unexpected("where a value has to begin")
}

// items reads a list after its opening bracket.
func (r *jsonReader) items(n *Node, depth int) error {
	for first := true; ; first = false {
		r.space()
		if first && r.peek() == ']' {
			r.at++
			return nil
		}
		item, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		n.Items = append(n.Items, item)
		if more, err := r.separator(']'); !more {
			return err
		}
	}
}

// members reads a mapping after its opening brace.
func (r *jsonReader) members(n *Node, depth int) error {
	seen := make(map[string]*Node)
	for first := true; ; first = false {
		r.space()
		if first && r.peek() == '}' {
			r.at++
			return nil
		}
		if r.peek() != '"' {
			return r.unexpected("where a name in double quotes has to begin")
		}
		key, err := r.value(depth)
		if err != nil {
			return err
		}
		if r.space(); r.peek() != ':' {
			return r.unexpected("where a colon has to come")
		}
		r.at++
		r.space()
		value, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		if err := r.addMember(n, seen, key, value); err != nil {
			return err
		}
		if more, err := r.separator('}'); !more {
			return err
		}
	}
}

// separator reads the comma after an element, or the end of its list or mapping.
func (r *jsonReader) separator(end byte) (more bool, err error) {
	switch r.space(); r.peek() {
	case end:
		r.at++
		return false, nil
	case ',':
		r.at++
		r.space()
		if r.peek() == end {
			return false, r.mistake("unexpected %q behind a comma: delete the comma", end)
		}
		return true, nil
	}
	return false, r.unexpected("where a comma or " + string(end) + " has to come")
}

// jsonWord finds a word without quotes.
var jsonWord = regexp.MustCompile(`^[A-Za-z]+`)

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// number reads a number (section 6). It returns "" for a malformed one, and stops
// before its first wrong character.
func (r *jsonReader) number() string {
	start := r.at
	digits := func() bool {
		begin := r.at
		for isDigit(r.peek()) {
			r.at++
		}
		return r.at > begin
	}
	if r.peek() == '-' {
		r.at++
	}
	if r.peek() == '0' {
		r.at++ // no digit follows, which the caller finds
	} else if !digits() {
		return ""
	}
	if r.peek() == '.' {
		if r.at++; !digits() {
			return ""
		}
	}
	if c := r.peek(); c == 'e' || c == 'E' {
		r.at++
		if c := r.peek(); c == '+' || c == '-' {
			r.at++
		}
		if !digits() {
			return ""
		}
	}
	return r.text[start:r.at]
}

// string reads a string (section 7) with the quotes around it.
func (r *jsonReader) string() (string, error) {
	begin := r.position()
	r.at++
	start := r.at
	var b []byte // the text before start, if it has an escape
	for ; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case c == '"':
			text := r.text[start:r.at]
			if b != nil {
				text = string(append(b, text...))
			}
			r.at++
			return text, nil
		case c == '\\':
			b = append(b, r.text[start:r.at]...)
			char, size := jsonEscape(r.text[r.at:])
			if size == 0 {
				return "", r.badEscape()
			}
			b = utf8.AppendRune(b, char)
			r.at += size - 1
			start = r.at + 1
		case c == '\n', c == '\r':
			return "", r.fail(begin, "invalid JSON: the text that begins here has no closing quote in its line: a line break is written \\n")
		case c < ' ':
			return "", r.mistake("control character U+%04X: write it as an escape, \\u%04x", c, c)
		}
	}
	return "", r.fail(begin, "invalid JSON: the text that begins here has no closing quote")
}

// jsonEscapes are the escapes of one character.
var jsonEscapes = map[byte]rune{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// jsonEscape reads an escape. It returns the size 0 for a malformed one and for half
// a surrogate pair, which is no character.
func jsonEscape(s string) (r rune, size int) {
	if len(s) < 2 {
		return 0, 0
	}
	if r, ok := jsonEscapes[s[1]]; ok {
		return r, 2
	}
	r, ok := codeUnit(s)
	if !ok || !utf16.IsSurrogate(r) {
		if !ok {
			return 0, 0
		}
		return r, 6
	}
	low, ok := codeUnit(s[6:])
	if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
		return 0, 0
	}
	return r, 12
}

// codeUnit reads \u and four digits.
func codeUnit(s string) (r rune, ok bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	v, err := strconv.ParseUint(s[2:6], 16, 16)
	return rune(v), err == nil
}

// badEscape returns the message for the malformed escape that comes next.
func (r *jsonReader) badEscape() error {
	if c, ok := codeUnit(r.text[r.at:]); ok {
		return r.mistake("\\u%04x is half of a surrogate pair, which is no character on its own", c)
	}
	return r.mistake("malformed escape: write \\\\ for a backslash")
}
