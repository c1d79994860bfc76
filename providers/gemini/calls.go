package gemini

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// functionCalls puts the function calls of an answer together. A call comes
// whole, or, where streamFunctionCallArguments was asked for, in pieces, one
// call after the other: its name first, then its arguments value by value, each
// with its place as a JSON path. Its zero value holds none.
type functionCalls struct {
	open      bool // a call is expected to go on
	index     int  // of the last call
	count     int  // of all
	arguments arguments
	signed    bool // a call has a signature
}

// read takes in a functionCall, and the signature of its part.
func (c *functionCalls) read(t *upstream.ToolCalls, f *fastjson.Value, signature []byte) error {
	id, name, goesOn := f.GetStringBytes("id"), f.GetStringBytes("name"), f.GetBool("willContinue")
	if c.open && len(name) > 0 {
		c.end(t) // another one begins
	}
	begins := !c.open
	if begins {
		c.index = t.Next(id, name)
		c.count = c.index + 1
	}
	if c.signed = c.signed || len(signature) > 0; c.signed && (begins || len(signature) > 0) {
		if len(id) > 0 {
			signature = append([]byte(ownID), signature...)
		}
		t.Opaque(c.index, signature)
	}
	if begins {
		if !goesOn && f.Get("partialArgs") == nil {
			t.Value(c.index, f.Get("args"))
			t.End(c.index)
			return nil
		}
		c.open, c.arguments = true, arguments{}
	}
	var piece []byte
	for _, v := range f.GetArray("partialArgs") {
		var err error
		if piece, err = c.arguments.add(piece, v); err != nil {
			return fmt.Errorf("a piece of a function call's arguments does not fit: %w", err)
		}
	}
	t.Arguments(c.index, piece)
	if !goesOn {
		c.end(t)
	}
	return nil
}

func (c *functionCalls) end(t *upstream.ToolCalls) {
	c.open = false
	t.Arguments(c.index, c.arguments.end(nil))
	t.End(c.index)
}

// fault judges the calls at the end of the answer.
func (c *functionCalls) fault() error {
	if c.open {
		return errors.New("its last function call was to go on")
	}
	return nil
}

// arguments writes arguments as JSON while they arrive. Each value follows the one
// before: a closed value is not opened again.
//
// The values $.a[0] = "x", $.a[1] = 2 and $.b = true come as {"a":["x and ",2 and
// ],"b":true and }.
type arguments struct {
	levels []level // the objects and arrays that are open, the outermost first
	leaf   leaf    // the value at the present place of the last level
	half   []byte  // of a character, at the end of a text
}

// level is an object, or an array, that is open.
type level struct {
	names []string // of an object, so far; the last one is the present place
	count int      // of an array's elements
	array bool
}

// leaf is the state of a value that arrives in pieces.
type leaf uint8

// The states of a value.
const (
	leafBegun leaf = iota // nothing but its place
	leafText              // a piece of a text, or all of it
	leafDone
)

// maxDepth bounds how deep arguments are nested.
const maxDepth = 64

var errPlace = errors.New("its place is another value's")

// place is a segment of a path: a name, or an index where that is not negative.
type place struct {
	name  string
	index int
}

// is reports whether the level is at a place.
func (l *level) is(p place) bool {
	if l.array {
		return p.index == l.count-1 && p.index >= 0
	}
	return p.index < 0 && len(l.names) > 0 && l.names[len(l.names)-1] == p.name
}

// add takes in a partialArg: a value, or a piece of a text, and its place. It appends
// what that adds to the JSON.
func (a *arguments) add(dst []byte, v *fastjson.Value) ([]byte, error) {
	path, err := places(string(v.GetStringBytes("jsonPath")))
	if err != nil {
		return dst, err
	}
	same := 0
	for same < len(path) && same < len(a.levels) && a.levels[same].is(path[same]) {
		same++
	}
	if same < len(path) {
		if same < len(a.levels) {
			dst = a.close(dst, same+1)
		} else if same > 0 && a.leaf != leafBegun {
			return dst, errPlace
		}
		if dst, err = a.open(dst, path, same); err != nil {
			return dst, err
		}
		a.leaf = leafBegun
	}
	text := v.Get("stringValue")
	value, ok := scalar(v)
	switch {
	case text == nil && !ok:
		return dst, nil // it only says that something will come
	case len(path) < len(a.levels) || len(path) == 0, a.leaf == leafDone, text == nil && a.leaf == leafText:
		return dst, errPlace
	case text == nil:
		a.leaf = leafDone
		return jsontext.AppendValue(dst, value), nil
	}
	if a.leaf == leafBegun {
		dst = append(dst, '"')
		a.leaf = leafText
	}
	piece := upstream.AppendText(a.half, text.GetStringBytes())
	a.half = nil
	if n := len(piece) - 3; n >= 0 && piece[n] == 0xed && piece[n+1]&0xf0 == 0xa0 { // the first half of a character
		a.half, piece = bytes.Clone(piece[n:]), piece[:n]
	}
	return jsontext.AppendEscaped(dst, piece), nil
}

// scalar returns the value of a partialArg that is no text. The text "NULL_VALUE" is
// nil.
func scalar(v *fastjson.Value) (value *fastjson.Value, ok bool) {
	for _, name := range [...]string{"numberValue", "boolValue"} {
		if value := v.Get(name); value != nil {
			return value, true
		}
	}
	return nil, v.Get("nullValue") != nil
}

// open opens a path from its segment from on: a further place of the level there, and
// new levels below it.
func (a *arguments) open(dst []byte, path []place, from int) ([]byte, error) {
	for i := from; i < len(path); i++ {
		p := path[i]
		if i == len(a.levels) {
			mark := byte('{')
			if p.index >= 0 {
				mark = '['
			}
			if i == 0 && mark == '[' {
				return dst, errPlace
			}
			dst = append(dst, mark)
			a.levels = append(a.levels, level{array: mark == '['})
		}
		l := &a.levels[i]
		switch {
		case l.array != (p.index >= 0), !l.array && slices.Contains(l.names, p.name), l.array && p.index < l.count:
			return dst, errPlace
		case l.array && p.index > l.count:
			return dst, errors.New("an element before it is missing")
		}
		if l.count > 0 {
			dst = append(dst, ',')
		}
		l.count++
		if !l.array {
			l.names = append(l.names, p.name)
			dst = append(jsontext.AppendString(dst, p.name), ':')
		}
	}
	return dst, nil
}

// close closes the value at the present place, and all levels but so many. What never
// came to be is null.
func (a *arguments) close(dst []byte, levels int) []byte {
	switch a.leaf {
	case leafBegun:
		dst = append(dst, "null"...)
	case leafText:
		dst = append(jsontext.AppendEscaped(dst, a.half), '"')
		a.half = nil
	}
	for i := len(a.levels) - 1; i >= levels; i-- {
		mark := byte('}')
		if a.levels[i].array {
			mark = ']'
		}
		dst = append(dst, mark)
	}
	a.levels = a.levels[:levels]
	return dst
}

// end closes all. Without a single value there is nothing to close.
func (a *arguments) end(dst []byte) []byte {
	if len(a.levels) == 0 {
		return dst
	}
	return a.close(dst, 0)
}

// places reads a JSON path.
func places(path string) ([]place, error) {
	rest, ok := strings.CutPrefix(path, "$")
	if !ok {
		return nil, fmt.Errorf("%s is no JSON path", strconv.Quote(path))
	}
	var all []place
	for rest != "" {
		if len(all) == maxDepth {
			return nil, errors.New("it is nested too deep")
		}
		p, size, err := firstPlace(rest)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strconv.Quote(path), err)
		}
		all, rest = append(all, p), rest[size:]
	}
	return all, nil
}

var errSegment = errors.New("no place of a single value")

var (
	// segment matches the first segment of a JSON path that names one value (RFC 9535,
	// section 2.5.1): .name, [index], ['name'] or ["name"].
	segment = regexp.MustCompile(`^(?s:\.([^.\[]+)|\[([0-9]+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\])`)
	// doubleQuoted makes of a name in quotes of either kind one in JSON.
	doubleQuoted = strings.NewReplacer(`\'`, `'`, `\\`, `\\`, `\"`, `\"`, `"`, `\"`)
)

// firstPlace returns the place that the first segment of a path names, and the size of
// the segment.
func firstPlace(path string) (p place, size int, err error) {
	m := segment.FindStringSubmatch(path)
	switch {
	case m == nil || m[1] == "*":
		return p, 0, errSegment
	case m[1] != "":
		return place{m[1], -1}, len(m[0]), nil
	case m[2] != "":
		index, err := strconv.ParseUint(m[2], 10, 31)
		if err != nil {
			return p, 0, errSegment
		}
		return place{"", int(index)}, len(m[0]), nil
	}
	v, err := fastjson.Parse(`"` + doubleQuoted.Replace(m[3]+m[4]) + `"`)
	if err != nil {
		return p, 0, errSegment
	}
	return place{string(v.GetStringBytes()), -1}, len(m[0]), nil
}
