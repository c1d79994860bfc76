package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// jsonReader builds nodes from a JSON file.
type jsonReader struct {
	builder
	data []byte
	dec  *json.Decoder
	// scanned is where the last token began, in line line, which begins at
	// lineStart: positions cost one pass over the file in all.
	scanned, line, lineStart int
}

func parseJSON(file string, data []byte, errs *Errors) *Node {
	r := &jsonReader{builder: builder{file, errs}, data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1}
	r.dec.UseNumber()
	n, err := r.value(1)
	if err != nil {
		return nil
	}
	if rest := bytes.TrimLeft(data[r.dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		_ = r.fail(offsetPosition(file, data, len(data)-len(rest)), "unexpected text after the end of the JSON value")
		return nil
	}
	return n
}

// position is where the next token begins.
func (r *jsonReader) position() Position {
	at := int(r.dec.InputOffset())
	for at < len(r.data) && strings.IndexByte(" \t\r\n,:", r.data[at]) >= 0 {
		at++
	}
	for i := r.scanned; i < at; i++ {
		if r.data[i] == '\n' {
			r.line++
			r.lineStart = i + 1
		}
	}
	r.scanned = max(r.scanned, at)
	p := offsetPosition(r.file, r.data[r.lineStart:], at-r.lineStart)
	p.Line = r.line
	return p
}

// token reads the next token, with the place where it begins.
func (r *jsonReader) token() (json.Token, Position, error) {
	pos := r.position()
	t, err := r.dec.Token()
	if err == nil {
		return t, pos, nil
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		// The offset is that of the offending byte or the one behind it,
		// depending on which part of the decoder noticed.
		at := max(int(syntax.Offset)-1, r.scanned)
		return nil, pos, r.fail(offsetPosition(r.file, r.data, at), "invalid JSON: %s", syntax.Error())
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, pos, r.fail(offsetPosition(r.file, r.data, len(r.data)), "invalid JSON: the file ends too early")
	}
	return nil, pos, r.fail(pos, "invalid JSON: %v", err)
}

func (r *jsonReader) value(depth int) (*Node, error) {
	t, pos, err := r.token()
	if err != nil {
		return nil, err
	}
	n := &Node{Kind: Scalar, Pos: pos}
	switch v := t.(type) {
	case json.Delim:
		if err := r.checkDepth(depth, pos); err != nil {
			return nil, err
		}
		if v == '[' {
			n.Kind = Sequence
			return n, r.items(n, depth)
		}
		n.Kind = Mapping
		return n, r.members(n, depth)
	case string:
		n.Text, n.Quoted = v, true
	case json.Number:
		n.Text = v.String()
	case bool:
		n.Text = "false"
		if v {
			n.Text = "true"
		}
	case nil:
		n.Text = "null"
	}
	n.JSON = true
	return n, nil
}

func (r *jsonReader) items(n *Node, depth int) error {
	for r.dec.More() {
		item, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		n.Items = append(n.Items, item)
	}
	_, _, err := r.token()
	return err
}

func (r *jsonReader) members(n *Node, depth int) error {
	seen := make(map[string]*Node)
	for r.dec.More() {
		t, pos, err := r.token()
		if err != nil {
			return err
		}
		// The decoder itself refuses a member whose name is not a string.
		name, _ := t.(string)
		key := &Node{Kind: Scalar, Pos: pos, Text: name, Quoted: true, JSON: true}
		value, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		if err := r.addMember(n, seen, key, value); err != nil {
			return err
		}
	}
	_, _, err := r.token()
	return err
}
