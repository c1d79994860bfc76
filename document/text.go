package document

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// text reads the scalars of a YAML file (YAML 1.2, chapters 7 and 8). Line
// breaks are line feeds.
type text struct {
	src string
	at  int
	// A line begins at start, of which the characters up to seen are known to
	// hold no line break: a file on one line costs one pass in all.
	start, seen int
}

// lineStart is where the line at hand begins.
func (t *text) lineStart() int {
	if t.at < t.start {
		return strings.LastIndexByte(t.src[:t.at], '\n') + 1
	}
	if t.at > t.seen {
		if i := strings.LastIndexByte(t.src[t.seen:t.at], '\n'); i >= 0 {
			t.start = t.seen + i + 1
		}
		t.seen = t.at
	}
	return t.start
}

// column counts the bytes before the next one in its line.
func (t *text) column() int { return t.at - t.lineStart() }

// blankAt tells whether white space or nothing stands at i.
func (t *text) blankAt(i int) bool {
	return i >= len(t.src) || t.src[i] == ' ' || t.src[i] == '\t' || t.src[i] == '\n'
}

// take reads what is expected to come next.
func (t *text) take(s string) bool {
	ok := strings.HasPrefix(t.src[t.at:], s)
	if ok {
		t.at += len(s)
	}
	return ok
}

// skip reads white space and comments. It tells whether what comes next is the
// first of its line.
func (t *text) skip() (fresh bool) {
	fresh = t.at == 0
	for t.at < len(t.src) {
		switch t.src[t.at] {
		case '\n':
			fresh = true
		case ' ', '\t':
		case '#':
			if t.at > 0 && !t.blankAt(t.at-1) {
				return fresh
			}
			if i := strings.IndexByte(t.src[t.at:], '\n'); i >= 0 {
				t.at += i
			} else {
				t.at = len(t.src)
			}
			continue
		default:
			return fresh
		}
		t.at++
	}
	return fresh
}

func isFlowIndicator(c byte) bool { return strings.IndexByte(",[]{}", c) >= 0 }

// plainAt tells whether a plain scalar can begin at i. A lone - within a flow
// collection is one, too, as all readers have it.
func (t *text) plainAt(i int, flow bool) bool {
	if t.blankAt(i) {
		return false
	}
	switch c := t.src[i]; c {
	case '-':
		return !t.blankAt(i + 1)
	case '?', ':':
		return !t.blankAt(i+1) && !(flow && isFlowIndicator(t.src[i+1]))
	default:
		return strings.IndexByte(",[]{}#&*!|>'\"%@`", c) < 0
	}
}

// readPlain reads a plain scalar that begins here, over several lines where
// they are indented deeper than parent.
func (t *text) readPlain(flow bool, parent int) string {
	var folded strings.Builder
	for {
		line := t.plainLine(flow)
		folded.WriteString(line)
		end := t.at
		breaks := t.breaks()
		if breaks == 0 || t.at == len(t.src) || !t.continues(flow, parent) {
			t.at = end
			if folded.Len() == len(line) {
				return line
			}
			return folded.String()
		}
		foldBreaks(&folded, breaks)
	}
}

// plainLine reads what one line gives to a plain scalar.
func (t *text) plainLine(flow bool) string {
	start, end := t.at, t.at
	for ; t.at < len(t.src) && t.src[t.at] != '\n'; t.at++ {
		c := t.src[t.at]
		switch {
		case c == ' ' || c == '\t':
			continue
		case c == '#' && t.at > start && t.blankAt(t.at-1),
			c == ':' && (t.blankAt(t.at+1) || flow && isFlowIndicator(t.src[t.at+1])),
			flow && isFlowIndicator(c):
			t.at = end
			return t.src[start:end]
		}
		end = t.at + 1
	}
	t.at = end
	return t.src[start:end]
}

// breaks reads the end of a line, empty lines and the blanks that begin the
// next. It returns the number of line breaks, and reads nothing when something
// else stands on the line.
func (t *text) breaks() (n int) {
	start := t.at
	for ; t.at < len(t.src); t.at++ {
		switch t.src[t.at] {
		case '\n':
			n++
			continue
		case ' ', '\t':
			continue
		}
		break
	}
	if n == 0 {
		t.at = start
	}
	return n
}

// continues tells whether a plain scalar goes on in the line at hand.
func (t *text) continues(flow bool, parent int) bool {
	line := t.lineStart()
	if rest := t.src[line:]; line == t.at && t.blankAt(line+3) && (strings.HasPrefix(rest, "---") || strings.HasPrefix(rest, "...")) {
		return false
	}
	c := t.src[t.at]
	if c == '#' {
		return false
	}
	if flow {
		return !isFlowIndicator(c) && (c != ':' || !t.blankAt(t.at+1) && !isFlowIndicator(t.src[t.at+1]))
	}
	indent := len(t.src[line:t.at]) - len(strings.TrimLeft(t.src[line:t.at], " "))
	return indent > parent
}

// foldBreaks writes what n line breaks in a row stand for.
func foldBreaks(b io.ByteWriter, n int) {
	if n == 1 {
		_ = b.WriteByte(' ')
	}
	for range n - 1 {
		_ = b.WriteByte('\n')
	}
}

// readQuoted reads a quoted scalar that begins here; it reads nothing when
// there is none, or no end of it. bad is the place of a malformed escape, or -1.
func (t *text) readQuoted() (value string, bad int) {
	start := t.at
	if t.at == len(t.src) || t.src[t.at] != '"' && t.src[t.at] != '\'' {
		return "", -1
	}
	quote := t.src[t.at]
	t.at++
	var b bytes.Buffer
	kept := 0 // what an escape wrote isn't trimmed
	for t.at < len(t.src) {
		c := t.src[t.at]
		switch {
		case c == quote && quote == '\'' && strings.HasPrefix(t.src[t.at:], "''"):
			b.WriteByte('\'')
			t.at += 2
		case c == quote:
			t.at++
			return b.String(), -1
		case c == '\\' && quote == '"':
			if strings.HasPrefix(t.src[t.at:], "\\\n") {
				t.at++
				n := t.breaks()
				for range n - 1 {
					b.WriteByte('\n')
				}
			} else {
				r, size := unescape(t.src[t.at:])
				if size == 0 {
					return "", t.at
				}
				b.WriteRune(r)
				t.at += size
			}
			kept = b.Len()
		case c == '\n':
			b.Truncate(kept + len(bytes.TrimRight(b.Bytes()[kept:], " \t")))
			foldBreaks(&b, t.breaks())
			kept = b.Len()
		default:
			b.WriteByte(c)
			t.at++
		}
	}
	t.at = start
	return "", -1
}

// escapes are the escapes of one character in double-quoted text.
var escapes = map[byte]rune{
	'0': 0, 'a': '\a', 'b': '\b', 't': '\t', '\t': '\t', 'n': '\n', 'v': '\v', 'f': '\f', 'r': '\r', 'e': 0x1b,
	' ': ' ', '"': '"', '/': '/', '\\': '\\', 'N': 0x85, '_': 0xa0, 'L': 0x2028, 'P': 0x2029,
}

// unescape reads one escape. Like JSON it takes two \u for a character beyond
// the basic plane. The size is 0 for a malformed one.
func unescape(s string) (r rune, size int) {
	if len(s) < 2 {
		return 0, 0
	}
	if r, ok := escapes[s[1]]; ok {
		return r, 2
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[1]]
	if digits == 0 || len(s) < 2+digits {
		return 0, 0
	}
	v, err := strconv.ParseUint(s[2:2+digits], 16, 32)
	if err != nil {
		return 0, 0
	}
	size = 2 + digits
	if digits == 4 && 0xd800 <= v && v < 0xdc00 && strings.HasPrefix(s[size:], `\u`) && len(s) >= 2*size {
		if low, err := strconv.ParseUint(s[size+2:2*size], 16, 32); err == nil && 0xdc00 <= low && low < 0xe000 {
			return rune(0x10000 + (v-0xd800)<<10 + (low - 0xdc00)), 2 * size
		}
	}
	if v > utf8.MaxRune || !utf8.ValidRune(rune(v)) {
		return 0, 0
	}
	return rune(v), size
}

// readBlock reads a literal or folded scalar with its header, below a key or a
// dash in the column parent. It leaves the reading at the end of the last line
// that belongs to the scalar.
func (t *text) readBlock(parent int) (value string, ok bool) {
	header, _, _ := strings.Cut(t.src[t.at:], "\n")
	t.at += len(header)
	if i := strings.Index(header, " #"); i >= 0 {
		header = header[:i]
	}
	header = strings.TrimRight(header, " \t")
	if header == "" || header[0] != '|' && header[0] != '>' {
		return "", false
	}
	folded := header[0] == '>'
	indent, chomp := -1, byte(0)
	for _, c := range []byte(header[1:]) {
		switch {
		case (c == '-' || c == '+') && chomp == 0:
			chomp = c
		case '1' <= c && c <= '9' && indent < 0:
			indent = max(parent, 0) + int(c-'0')
		default:
			return "", false
		}
	}
	var b strings.Builder
	t.blockBody(&b, indent, parent, folded)
	text := b.String()
	content := strings.TrimRight(text, "\n")
	switch {
	case chomp == '-' || content == "" && chomp == 0:
		return content, true
	case chomp == '+' || content == text:
		return text, true
	}
	return content + "\n", true
}

// blockBody reads the lines of a block scalar, indented by indent or, if that
// is negative, as the first line with text is, deeper than parent.
func (t *text) blockBody(b *strings.Builder, indent, parent int, folded bool) {
	empty := 0 // lines since the last one with text
	// There was one with text; it began with a blank; it ended in a line break.
	var before, spaced, ended bool
	defer func() {
		if ended {
			b.WriteByte('\n')
		}
		for range empty {
			b.WriteByte('\n')
		}
	}()
	for t.at < len(t.src) {
		begin := t.at + 1 // behind the line break
		line, _, _ := strings.Cut(t.src[begin:], "\n")
		lead := len(line) - len(strings.TrimLeft(line, " "))
		switch {
		case lead == len(line) && (indent < 0 || lead <= indent):
			if begin+len(line) < len(t.src) {
				empty++
			}
			t.at = begin + len(line)
			continue
		case indent < 0 && lead > parent:
			indent = lead
		case indent < 0 || lead < indent:
			return
		}
		line = line[indent:]
		blank := line[0] == ' ' || line[0] == '\t'
		switch {
		case !before:
		case folded && !spaced && !blank && empty == 0:
			b.WriteByte(' ')
		case !folded || spaced || blank:
			b.WriteByte('\n')
		}
		for range empty {
			b.WriteByte('\n')
		}
		b.WriteString(line)
		t.at = begin + indent + len(line)
		empty, before, spaced, ended = 0, true, blank, t.at < len(t.src)
	}
}
