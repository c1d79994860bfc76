package document

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// plainReader reads the YAML that definitions are mostly written in, several times as
// fast as the library and without its trees: block and flow collections, text in one
// line, and literal blocks. It knows no mistakes. Whatever it does not read for
// certain as the library does, mistakes included, ends it, and the library reads the
// file from its beginning.
//
// For example, it reads all of this, and the library what is listed below.
//
//	default: { rpm: 60 }  # a comment
//	matrix:
//	  - [ nl, "a: b", 10..20, { rpm: 6 } ]
//	text: |
//	  Hello
//
// It leaves to the library: anchors and aliases, tags, directives, marks of documents,
// keys with question marks, folded blocks, text in several lines, absent values, tabs
// and other control characters, and most escapes.
type plainReader struct {
	file, text string
	at         int // the offset of the next byte
	line       int
	lineStart  int  // the offset where that line begins
	ascii      bool // a byte is a character
	nodes      int  // read so far
	ended      bool // the library has to read the file
	endLine    int  // the line where that was found

	slab    []Node
	items   []*Node  // of the lists being read
	members []Member // of the mappings being read
}

// parsePlain reads a file. It returns nil and a line where it can't, or why the file
// has too many values.
func parsePlain(file, text string) (n *Node, line int, err *Error) {
	r := &plainReader{file: file, text: text, line: 1}
	if !r.readable() {
		return nil, 1, nil
	}
	if r.at = -1; r.nextLine() < 0 {
		return nil, 1, nil
	}
	n = r.block(-1, 1)
	switch {
	case r.nodes > MaxNodes:
		return nil, 0, &Error{Pos: Position{file, r.endLine, 1}, Message: fmt.Sprintf("the file has more than %d values and keys: split it", MaxNodes)}
	case r.ended:
		return nil, r.endLine, nil
	case r.at < len(text):
		return nil, r.line, nil
	}
	return n, 0, nil
}

// readable reports whether the text has only characters that mean the same wherever
// they are, and no line that is about the file.
func (r *plainReader) readable() bool {
	if !strings.HasSuffix(r.text, "\n") {
		return false
	}
	r.ascii = true
	for i := range len(r.text) {
		switch b := r.text[i]; {
		case b < ' ' && b != '\n', b == 0x7f:
			return false
		case b >= utf8.RuneSelf:
			r.ascii = false
			if b == 0xc2 && r.text[i+1] < 0xa0 {
				return false // U+0080 to U+009F
			}
		}
	}
	if !r.ascii && strings.ContainsAny(r.text, "\u2028\u2029\ufeff\ufffe\uffff") {
		return false
	}
	for _, begin := range []string{"%", "---", "..."} {
		if strings.HasPrefix(r.text, begin) || strings.Contains(r.text, "\n"+begin) {
			return false
		}
	}
	return true
}

// end leaves the file to the library.
func (r *plainReader) end() *Node {
	if !r.ended {
		r.ended, r.endLine = true, r.line
	}
	r.at = len(r.text)
	return nil
}

// column returns the column of the next character, from 0 on.
func (r *plainReader) column() int {
	if r.ascii {
		return r.at - r.lineStart
	}
	return utf8.RuneCountInString(r.text[r.lineStart:r.at])
}

// node makes the node that begins at the next character.
func (r *plainReader) node(shape Shape) *Node {
	at := Position{r.file, r.line, 1 + r.column()}
	if r.nodes++; r.nodes > MaxNodes && !r.ended {
		r.end()
	}
	if len(r.slab) == 0 {
		// Nodes of a small file share one piece of memory.
		r.slab = make([]Node, min(max(len(r.text)/24, 4), 64))
	}
	n := &r.slab[0]
	r.slab = r.slab[1:]
	n.Shape, n.Pos = shape, at
	return n
}

// peek returns a byte behind the next one, or a line break at the end.
func (r *plainReader) peek(ahead int) byte {
	if r.at+ahead < len(r.text) {
		return r.text[r.at+ahead]
	}
	return '\n'
}

// spaces skips spaces.
func (r *plainReader) spaces() {
	for r.at < len(r.text) && r.text[r.at] == ' ' {
		r.at++
	}
}

// comment skips a comment.
func (r *plainReader) comment() {
	if r.peek(0) != '#' || r.at > r.lineStart && r.text[r.at-1] != ' ' {
		return
	}
	if i := strings.IndexByte(r.text[r.at:], '\n'); i >= 0 {
		r.at += i
	}
}

// nextLine goes to the first character of the next line that has more than a comment,
// and returns its column, or -1 at the end of the file. Nothing but a comment may be
// left in this line.
func (r *plainReader) nextLine() int {
	if r.at < 0 { // the beginning of the file
		r.at = 0
	} else {
		r.spaces()
		if r.comment(); r.peek(0) != '\n' {
			r.end()
		}
		if r.at == len(r.text) {
			return -1
		}
		r.lineBreak()
	}
	for {
		r.spaces()
		if r.comment(); r.at == len(r.text) {
			return -1
		}
		if r.text[r.at] != '\n' {
			return r.column()
		}
		r.lineBreak()
	}
}

// lineBreak skips a line break.
func (r *plainReader) lineBreak() {
	r.at++
	r.line++
	r.lineStart = r.at
}

// dash reports whether an element of a block list comes next.
func (r *plainReader) dash() bool {
	return r.peek(0) == '-' && (r.peek(1) == ' ' || r.peek(1) == '\n')
}

// block reads the value that comes next within a collection at a column, and goes to
// the next line.
func (r *plainReader) block(parent, depth int) *Node {
	if depth > MaxDepth || r.ended {
		return r.end()
	}
	if r.dash() {
		return r.list(r.column(), depth)
	}
	begin, line := r.at, r.line
	if key := r.key(); key {
		r.at = begin
		return r.mapping(r.column(), depth)
	}
	r.at, r.line = begin, line
	return r.inline(parent, depth)
}

// key skips a key of a block mapping and reports whether there is one, in this line.
// What it skips otherwise is of no use.
func (r *plainReader) key() bool {
	switch r.peek(0) {
	case '"', '\'':
		if _, ok := r.quoted(); !ok {
			return false
		}
		r.spaces()
		return r.peek(0) == ':' && (r.peek(1) == ' ' || r.peek(1) == '\n')
	case '[', '{', '|', '>':
		return false
	}
	for ; r.peek(0) != '\n'; r.at++ {
		switch {
		case r.text[r.at] == ':' && (r.peek(1) == ' ' || r.peek(1) == '\n'):
			return true
		case r.text[r.at] == '#' && r.text[r.at-1] == ' ':
			return false
		}
	}
	return false
}

// list reads a block list at a column.
func (r *plainReader) list(column, depth int) *Node {
	n, begin := r.node(Sequence), len(r.items)
	for next := column; next == column && r.dash() && !r.ended; {
		r.at++
		item := r.value(column, depth+1, &next)
		r.items = append(r.items, item)
	}
	n.Items = take(&r.items, begin)
	return n
}

// take removes the last elements of a list and returns them.
func take[T any](from *[]T, begin int) []T {
	taken := make([]T, len(*from)-begin)
	copy(taken, (*from)[begin:])
	clear((*from)[begin:])
	*from = (*from)[:begin]
	return taken
}

// value reads what follows a dash or a colon, within a collection at a column, and
// sets next to the column of the next line. A line that belongs to no collection, as
// the second line of a text, ends them all, and so it ends the reading too early.
func (r *plainReader) value(column, depth int, next *int) *Node {
	listed := r.text[r.at-1] == '-'
	r.spaces()
	if r.comment(); r.peek(0) != '\n' {
		var n *Node
		if listed {
			n = r.block(column, depth)
		} else {
			n = r.inline(column, depth)
		}
		*next = r.here()
		return n
	}
	switch at := r.nextLine(); {
	case at > column, at == column && !listed && r.dash():
		n := r.block(column, depth)
		*next = r.here()
		return n
	}
	return r.end() // an absent value
}

// here returns the column of the next character, which is the first of its line, or
// -1 at the end of the file.
func (r *plainReader) here() int {
	if r.at >= len(r.text) {
		return -1
	}
	return r.column()
}

// mapping reads a block mapping at a column.
func (r *plainReader) mapping(column, depth int) *Node {
	n, begin := r.node(Mapping), len(r.members)
	var seen map[string]bool
	for next := column; next == column && !r.ended; {
		key := r.name(false)
		if r.spaces(); r.ended || r.peek(0) != ':' || r.peek(1) != ' ' && r.peek(1) != '\n' {
			return r.end()
		}
		if !r.unique(&seen, begin, key) {
			return r.end()
		}
		r.at++
		value := r.value(column, depth+1, &next)
		r.members = append(r.members, Member{key, value})
	}
	n.Members = take(&r.members, begin)
	return n
}

// unique reports whether a mapping has no member of a name yet, and has room for one.
// The members that it has are those from begin on.
func (r *plainReader) unique(seen *map[string]bool, begin int, key *Node) bool {
	const few = 16
	others := r.members[begin:]
	if len(others) == MaxMembers {
		return false
	}
	if len(others) < few {
		for i := range others {
			if others[i].Key.Text == key.Text {
				return false
			}
		}
		return true
	}
	if *seen == nil {
		*seen = make(map[string]bool)
		for i := range others {
			(*seen)[others[i].Key.Text] = true
		}
	}
	if (*seen)[key.Text] {
		return false
	}
	(*seen)[key.Text] = true
	return true
}

// name reads a key.
func (r *plainReader) name(flow bool) *Node {
	const longest = 1000 // the library looks no further for the colon
	n := r.node(Scalar)
	begin := r.at
	var ok bool
	if c := r.peek(0); c == '"' || c == '\'' {
		n.Quoted = true
		n.Text, ok = r.quoted()
	} else if n.Text, ok = r.plain(flow); n.Text == "<<" || n.Text != "" && n.Text[0] == '-' {
		ok = false
	}
	if !ok || r.at-begin > longest {
		return r.end()
	}
	if !r.ascii {
		for i := begin; i < r.at; i++ {
			if r.text[i] >= utf8.RuneSelf {
				return r.end() // it may hide something
			}
		}
	}
	return n
}

// inline reads a value that begins in this line and is no block collection, within a
// collection at a column, and goes to the next line.
func (r *plainReader) inline(parent, depth int) *Node {
	var n *Node
	switch r.peek(0) {
	case '[', '{':
		n = r.flow(parent, depth)
	case '|':
		return r.literal(parent)
	default:
		n = r.scalar(false)
	}
	r.nextLine()
	return n
}

// scalar reads text in one line.
func (r *plainReader) scalar(flow bool) *Node {
	n := r.node(Scalar)
	var ok bool
	if c := r.peek(0); c == '"' || c == '\'' {
		n.Quoted = true
		n.Text, ok = r.quoted()
	} else if n.Text, ok = r.plain(flow); curlyQuoted(n.Text) {
		ok = false
	}
	if !ok {
		return r.end()
	}
	return n
}

// plain reads text without quotes, up to what ends it in its line.
func (r *plainReader) plain(flow bool) (text string, ok bool) {
	switch c := r.peek(0); c {
	case ',', '[', ']', '{', '}', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`', '?', ':', '\n', ' ':
		return "", false
	case '-':
		if next := r.peek(1); next == ' ' || next == '\n' || flow && isFlowIndicator(next) {
			return "", false
		}
	}
	begin, end := r.at, r.at // of the text, without spaces behind it
	for ; ; r.at++ {
		c := r.peek(0)
		switch {
		case c == '\n', flow && isFlowIndicator(c):
			return r.text[begin:end], true
		case c == ' ':
			continue
		case c == '#' && r.text[r.at-1] == ' ':
			return r.text[begin:end], true
		case c == ':':
			next := r.peek(1)
			if next == ' ' || next == '\n' {
				return r.text[begin:end], true
			}
			if flow && isFlowIndicator(next) {
				return "", false
			}
		}
		end = r.at + 1
	}
}

// isFlowIndicator reports whether a character ends text in flow style.
func isFlowIndicator(c byte) bool {
	return c == ',' || c == '[' || c == ']' || c == '{' || c == '}'
}

// quoted reads text in quotes, in one line.
func (r *plainReader) quoted() (text string, ok bool) {
	quote := r.text[r.at]
	r.at++
	begin := r.at
	var b []byte // the text before begin, where it has an escape
	for ; r.peek(0) != '\n'; r.at++ {
		c := r.text[r.at]
		switch {
		case c == quote && quote == '\'' && r.peek(1) == '\'':
			r.at++
			b = append(b, r.text[begin:r.at]...)
			begin = r.at + 1
		case c == quote:
			text = r.text[begin:r.at]
			if b != nil {
				text = string(append(b, text...))
			}
			r.at++
			return text, true
		case c == '\\' && quote == '"':
			b = append(b, r.text[begin:r.at]...)
			r.at++
			switch c := r.peek(0); c {
			case '"', '\\', '/':
				b = append(b, c)
			case 'n':
				b = append(b, '\n')
			case 't':
				b = append(b, '\t')
			default:
				return "", false
			}
			begin = r.at + 1
		}
	}
	return "", false
}

// gap skips white space and comments in flow style, within a collection at a column.
func (r *plainReader) gap(parent int) {
	for {
		r.spaces()
		r.comment()
		if r.peek(0) != '\n' {
			return
		}
		if r.at == len(r.text) || r.nextLine() <= parent {
			r.end()
			return
		}
	}
}

// flow reads a collection in flow style, within a block collection at a column.
func (r *plainReader) flow(parent, depth int) *Node {
	if depth > MaxDepth {
		return r.end()
	}
	listed := r.text[r.at] == '['
	n := r.node(Mapping)
	var (
		items, members = len(r.items), len(r.members)
		seen           map[string]bool
		closing        = byte('}')
	)
	if listed {
		n.Shape, closing = Sequence, ']'
	}
	r.at++
	for r.gap(parent); r.peek(0) != closing; r.gap(parent) {
		if r.ended {
			return r.end()
		}
		if listed {
			item := r.element(parent, depth+1)
			r.items = append(r.items, item)
		} else {
			key := r.name(true)
			if r.spaces(); r.ended || r.peek(0) != ':' || r.peek(1) != ' ' && !(key.Quoted && r.text[r.at-1] != ' ') || !r.unique(&seen, members, key) {
				return r.end()
			}
			r.at++
			r.gap(parent)
			value := r.element(parent, depth+1)
			r.members = append(r.members, Member{key, value})
		}
		switch r.gap(parent); {
		case r.peek(0) == ',':
			r.at++
		case r.peek(0) != closing:
			return r.end()
		}
	}
	r.at++
	if listed {
		n.Items = take(&r.items, items)
	} else {
		n.Members = take(&r.members, members)
	}
	return n
}

// element reads a value in flow style.
func (r *plainReader) element(parent, depth int) *Node {
	if c := r.peek(0); c == '[' || c == '{' {
		return r.flow(parent, depth)
	}
	return r.scalar(true)
}

// literal reads a literal block, within a collection at a column, and goes to the next
// line.
func (r *plainReader) literal(parent int) *Node {
	n := r.node(Scalar)
	n.Quoted = true
	r.at++
	strip := r.peek(0) == '-'
	if strip {
		r.at++
	}
	if r.spaces(); r.peek(0) == '#' && r.text[r.at-1] != ' ' {
		return r.end()
	}
	if r.comment(); r.at >= len(r.text) || r.text[r.at] != '\n' {
		return r.end()
	}
	r.lineBreak()
	var (
		b      strings.Builder
		indent = -1
		blank  = 0 // lines that are not written yet
	)
	for r.at < len(r.text) {
		end := r.at + strings.IndexByte(r.text[r.at:], '\n')
		line := r.text[r.at:end]
		spaces := len(line) - len(strings.TrimLeft(line, " "))
		if indent < 0 {
			if spaces == len(line) || spaces <= parent {
				return r.end() // lines before the text, or none
			}
			indent = spaces
		}
		if spaces == len(line) && spaces <= indent {
			blank++
		} else if spaces < indent {
			break
		} else {
			for ; blank > 0; blank-- {
				b.WriteByte('\n')
			}
			b.WriteString(line[indent:])
			blank = 1
		}
		r.at = end
		r.lineBreak()
	}
	if indent < 0 {
		return r.end() // an absent text
	}
	if !strip {
		b.WriteByte('\n')
	}
	n.Text = b.String()
	// The next line may be a comment.
	r.spaces()
	if r.comment(); r.peek(0) == '\n' {
		r.nextLine()
	}
	return n
}
