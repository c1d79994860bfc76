package edit

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/document/format"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// Value is a value of a file that can be changed in its place.
type Value struct {
	// Text is the text of a quoted value or of a block. Of any other value it is what
	// stands in the file.
	Text string `json:"text"`
	// IsText reports whether whatever takes the place of the value is text. Otherwise it
	// is read as it is written: as a number, a condition, or a list in brackets.
	IsText bool `json:"is_text"`
	// Path is where the value is in its definition, such as "row 2, plan" of a table.
	Path string `json:"path"`
	// Field is the column or the condition that the value belongs to, if it is one.
	Field string `json:"field,omitempty"`

	name       string
	data       string // of the file
	tree       *document.Node
	node       *document.Node
	start, end int // the bytes of the value
	comma      byte
}

// At finds the value that begins at a place of a file. Lines and columns count as those of
// document.Position. What can't be changed in its place is an error with the place.
func At(name string, data []byte, line, column int) (*Value, error) {
	v := &Value{name: name, data: string(data)}
	refuse := func(format string, args ...any) (*Value, error) {
		return nil, &document.Error{Pos: document.Position{File: name, Line: line, Column: column}, Message: fmt.Sprintf(format, args...)}
	}
	var errs document.Errors
	if v.tree = document.Parse(name, data, &errs); errs.Len() > 0 {
		return nil, errs.Err()
	}
	start, ok := v.offset(line, column)
	if !ok {
		return refuse("the file has no such place")
	}
	v.start = start
	if v.tree != nil {
		v.find(v.tree, nil, line, column)
	}
	switch n := v.node; {
	case n == nil && strings.HasPrefix(v.data[start:], "*"):
		return refuse("this value comes from an alias: edit the text of the file")
	case n == nil:
		return refuse("no value of its own begins here: edit the text of the file")
	case occurrences(v.tree, n) > 1:
		return refuse("an alias repeats this value elsewhere: edit the text of the file")
	}
	if !v.measure() {
		return refuse("this value can't be changed in its place: edit the text of the file")
	}
	return v, nil
}

// offset returns the offset of a place.
func (v *Value) offset(line, column int) (at int, ok bool) {
	if strings.HasPrefix(v.data, "\xef\xbb\xbf") {
		at = 3
	}
	for ; line > 1; line-- {
		end := v.lineEnd(at)
		if end == len(v.data) {
			return 0, false
		}
		at = end + 1
		if strings.HasPrefix(v.data[end:], "\r\n") {
			at++
		}
	}
	for end := v.lineEnd(at); column > 1; column-- {
		if at >= end {
			return 0, false
		}
		_, size := utf8.DecodeRuneInString(v.data[at:])
		at += size
	}
	return at, line == 1 && column == 1
}

// lineEnd returns the offset of the break of the line at an offset, or of the end.
func (v *Value) lineEnd(at int) int {
	breaks := "\r\n"
	if document.IsJSON(v.name) {
		breaks = "\n"
	}
	if i := strings.IndexAny(v.data[at:], breaks); i >= 0 {
		return at + i
	}
	return len(v.data)
}

// find sets node, path and field to the first value at a place that is below n. steps lead
// to n: names of members, and numbers.
func (v *Value) find(n *document.Node, steps []any, line, column int) {
	begins := n.Pos.Line == line && n.Pos.Column == column
	if document.IsCSV(v.name) {
		begins = begins && len(steps) > 1 // a row begins where its first cell does
	} else if n.Shape == document.Mapping {
		begins = begins && v.data[v.start] == '{' // or else its first name begins here
	}
	if begins {
		if v.node == nil {
			v.node = n
			v.describe(steps)
		}
		return
	}
	for i, item := range n.Items {
		v.find(item, append(steps[:len(steps):len(steps)], i), line, column)
	}
	for _, m := range n.Members {
		v.find(m.Value, append(steps[:len(steps):len(steps)], m.Key.Text), line, column)
	}
}

// describe sets path and field by the steps that lead to the value.
func (v *Value) describe(steps []any) {
	columns, first := v.tree.Get("columns"), 1
	if document.IsCSV(v.name) {
		columns, first = v.tree.Items[0], 0
		steps = append([]any{"matrix"}, steps...)
	}
	for i, step := range steps {
		number, isNumber := step.(int)
		switch {
		case i == 2 && steps[0] == "matrix" && isNumber && columns != nil && number < len(columns.Items):
			v.Field = columns.Items[number].Text
			v.Path += ", " + v.Field
		case i == 1 && (steps[0] == "matrix" || steps[0] == "rules") && isNumber:
			v.Path = fmt.Sprintf("row %d", number+first)
		case isNumber:
			v.Path += fmt.Sprintf("[%d]", number+1)
		case v.Path == "":
			v.Path = step.(string)
		default:
			if i > 0 && steps[i-1] == "when" {
				v.Field = step.(string)
			}
			v.Path += "." + step.(string)
		}
	}
}

// occurrences counts how often a node is in a tree: aliases repeat nodes.
func occurrences(tree, n *document.Node) (count int) {
	if tree == n {
		return 1
	}
	for _, item := range tree.Items {
		count += occurrences(item, n)
	}
	for _, m := range tree.Members {
		count += occurrences(m.Value, n)
	}
	return count
}

// measure finds the end of the value's bytes, and the text that a form shows. It reports
// whether the value can be changed in its place.
func (v *Value) measure() bool {
	rest, n, length := v.data[v.start:], v.node, 0
	first := v.first()
	switch {
	case document.IsCSV(v.name):
		v.measureCell()
		return true
	case n.Shape != document.Scalar && (first == "[" || first == "{"):
		length = format.FlowLength(rest, func(int) {})
	case n.Shape != document.Scalar:
	case n.Quoted && (first == `"` || first == "'"):
		length, v.IsText = format.QuotedLength(rest), true
	case n.Quoted && first == "|":
		length, v.IsText = v.blockLength(), true
	case !n.Quoted && strings.HasPrefix(rest, n.Text):
		length = len(n.Text)
	}
	v.end = v.start + length
	v.Text = v.data[v.start:v.end]
	if v.IsText {
		v.Text = n.Text
	}
	return length > 0
}

// first returns the first byte of the value, or nothing of an empty one at the file's end.
func (v *Value) first() string { return v.data[v.start:min(v.start+1, len(v.data))] }

// measureCell does what measure does for a cell of a CSV file.
func (v *Value) measureCell() {
	v.comma = document.Separator(v.data)
	rest := v.data[v.start:]
	v.IsText = v.node.Shape == document.Scalar && v.node.Quoted
	if strings.HasPrefix(rest, `"`) {
		end := 1
		for ; end < len(rest) && (rest[end] != '"' || strings.HasPrefix(rest[end:], `""`)); end++ {
			if rest[end] == '"' {
				end++
			}
		}
		v.end = v.start + min(end+1, len(rest))
		v.Text = strings.TrimSpace(strings.ReplaceAll(rest[1:min(end, len(rest))], `""`, `"`))
	} else {
		end := strings.IndexAny(rest, string(v.comma)+"\r\n")
		if end < 0 {
			end = len(rest)
		}
		v.Text = strings.TrimRight(rest[:end], " \t")
		v.end = v.start + len(v.Text)
	}
	if v.IsText {
		v.Text = v.node.Text
	}
}

// blockLength returns the length of the literal block at the value's start, up to the end
// of its last line with text, or 0 for a block whose header says more than that its last
// line break is left out.
func (v *Value) blockLength() int {
	header, end := v.header(), 0
	if indicators := strings.TrimRight(strings.TrimPrefix(header, "|"), " \t"); strings.Trim(strings.SplitN(indicators, "#", 2)[0], " \t-") != "" {
		return 0
	}
	indent := v.indent()
	if indent == "" {
		return 0
	}
	for line := range strings.Lines(v.data[v.start+len(header):]) {
		text := strings.TrimRight(line, "\r\n")
		if strings.Trim(text, " ") != "" && end > 0 && !strings.HasPrefix(text, indent) {
			break
		}
		end += len(line)
	}
	body := v.data[v.start+len(header) : v.start+len(header)+end]
	return len(header) + len(strings.TrimRight(body, " \r\n"))
}

// header returns the first line of a block, from its sign on.
func (v *Value) header() string { return v.data[v.start:v.lineEnd(v.start)] }

// indent returns the spaces before the lines of a block.
func (v *Value) indent() string {
	for line := range strings.Lines(v.data[v.lineEnd(v.start):]) {
		if text := strings.TrimLeft(line, " "); strings.TrimRight(text, "\r\n") != "" {
			return line[:len(line)-len(text)]
		}
	}
	return ""
}

// candidate is a text for the file, and the value that it has to come out as.
type candidate struct {
	source string
	value  *document.Node
}

// Replace returns the file with another value in the place of v: text, quoted as the file
// needs it. All other bytes are the same, and the new file decodes to the old content with
// this one change. What can't be done so is an error with the place.
func (v *Value) Replace(text string) ([]byte, error) {
	list, problem := v.candidates(strings.ReplaceAll(text, "\r\n", "\n"))
	for _, c := range list {
		if v.comma != 0 {
			c.source = v.cell(c.source)
		}
		data := []byte(v.data[:v.start] + c.source + v.data[v.end:])
		var errs document.Errors
		after := document.Parse(v.name, data, &errs)
		if errs.Len() == 0 && after != nil && same(v.tree, after, v.node, c.value) {
			return data, nil
		}
	}
	return nil, &document.Error{Pos: v.node.Pos, Message: problem}
}

// candidates returns the ways to write a text, the first to try first, and what is wrong
// with the text if none of them fits.
func (v *Value) candidates(text string) (list []candidate, problem string) {
	problem = "this can't take the place of the value without changing more: edit the text of the file"
	quoted := func(sign string) candidate {
		return candidate{sign, &document.Node{Shape: document.Scalar, Text: text, Quoted: true}}
	}
	if !v.IsText {
		text = strings.Trim(text, " \t\n")
		c, mistakes := v.asWritten(text)
		if len(mistakes) == 0 && c.value != nil {
			list = append(list, c)
		}
		// A list that lacks its end would look like one and be a text.
		switch flow := strings.HasPrefix(text, "[") || strings.HasPrefix(text, "{"); {
		case flow && len(mistakes) > 0:
			return nil, fmt.Sprintf("this can't be read by itself (%s): edit the text of the file, or put quotes around all of it if it is text", mistakes[0].Message)
		case flow:
			return list, problem
		}
	}
	switch {
	case document.IsJSON(v.name):
	case v.IsText && v.first() == "|":
		return v.blocks(text), problem
	case v.IsText && v.single() && !strings.ContainsAny(text, "\n\r"):
		list = append(list, quoted("'"+strings.ReplaceAll(text, "'", "''")+"'"))
	}
	return append(list, quoted(doubleQuoted(text))), problem
}

// single reports whether the value is in single quotes.
func (v *Value) single() bool {
	return strings.HasPrefix(strings.TrimLeft(v.data[v.start:v.end], `"`), "'")
}

// asWritten returns the way to write a text that means more than a text may, such as a
// number, a condition or a list in brackets. One that can't be used has mistakes or no value.
func (v *Value) asWritten(text string) (candidate, []*document.Error) {
	name := v.name
	switch {
	case document.IsJSON(name):
	case text != "" && strings.Contains(`[{"'`, text[:1]):
		name += ".yaml" // the cells of a CSV file, too
	case text == "" && v.comma == 0:
		return candidate{}, nil
	default:
		return candidate{text, &document.Node{Shape: document.Scalar, Text: text}}, nil
	}
	var errs document.Errors
	n := document.Parse(name, []byte(text), &errs)
	return candidate{text, n}, errs.List()
}

// blocks returns the ways to write a text as a block.
func (v *Value) blocks(text string) []candidate {
	end := "\n"
	if strings.Contains(v.data, "\r\n") {
		end = "\r\n"
	}
	var body strings.Builder
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		body.WriteString(end)
		if line != "" {
			body.WriteString(v.indent() + line)
		}
	}
	value := &document.Node{Shape: document.Scalar, Text: text, Quoted: true}
	comment := strings.TrimLeft(v.header(), "|-")
	return []candidate{{"|" + comment + body.String(), value}, {"|-" + comment + body.String(), value}}
}

// cell returns a cell of a CSV file with a content.
func (v *Value) cell(content string) string {
	if !strings.HasPrefix(v.data[v.start:v.end], `"`) && !strings.ContainsAny(content, string(v.comma)+"\"\n") {
		return content
	}
	return `"` + strings.ReplaceAll(content, `"`, `""`) + `"`
}

// doubleQuoted returns a text in double quotes, as JSON and YAML read it.
func doubleQuoted(text string) string {
	return strings.ReplaceAll(string(jsontext.AppendString(nil, text)), "\x7f", `\u007f`)
}

// same reports whether two trees are equal but for places, and for a value in the place of
// the node old.
func same(a, b, old, value *document.Node) bool {
	if a == old {
		a, old = value, nil
	}
	if a.Shape != b.Shape || a.Text != b.Text || a.Quoted != b.Quoted || len(a.Items) != len(b.Items) || len(a.Members) != len(b.Members) {
		return false
	}
	for i := range a.Items {
		if !same(a.Items[i], b.Items[i], old, value) {
			return false
		}
	}
	for i, m := range a.Members {
		if !same(m.Key, b.Members[i].Key, nil, nil) || !same(m.Value, b.Members[i].Value, old, value) {
			return false
		}
	}
	return true
}
