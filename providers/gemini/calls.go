package gemini

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// functionCalls puts the function calls of an answer together. A call comes
// whole, or, where streamFunctionCallArguments was asked for, in pieces, one
// call after the other: its name first, then its arguments value by value, each
// with its place as a JSON path. Its zero value holds none.
type functionCalls struct {
	tools     upstream.ToolCalls
	open      bool // a call is expected to go on
	index     int  // of the call that is open
	arguments argument
}

// Any reports whether there is a function call, or a part of one.
func (c *functionCalls) Any() bool { return c.tools.Any() }

// read takes in a functionCall.
func (c *functionCalls) read(f *fastjson.Value) error {
	name, goesOn := f.GetStringBytes("name"), f.GetBool("willContinue")
	if c.open && len(name) > 0 {
		c.end() // another one begins
	}
	if !c.open {
		c.index = c.tools.Next(f.GetStringBytes("id"), name)
		if !goesOn && f.Get("partialArgs") == nil {
			c.tools.Value(c.index, f.Get("args"))
			return nil
		}
		c.open, c.arguments = true, argument{kind: object}
	}
	for _, v := range f.GetArray("partialArgs") {
		if err := c.arguments.set(v); err != nil {
			return fmt.Errorf("a piece of a function call's arguments does not fit: %w", err)
		}
	}
	if !goesOn {
		c.end()
	}
	return nil
}

func (c *functionCalls) end() {
	c.open = false
	c.tools.Arguments(c.index, c.arguments.append(nil))
}

// Finish returns the function calls once the answer is complete.
func (c *functionCalls) Finish() ([]providers.ToolCall, error) {
	if c.open {
		return nil, errors.New("its last function call was to go on")
	}
	return c.tools.Finish()
}

// argument is a value in the making.
type argument struct {
	kind    kind
	names   []string    // of an object's members
	members []*argument // of an object or an array
	text    []byte      // of a string so far, or another value's JSON
}

// kind is what an argument is.
type kind uint8

// The kinds.
const (
	unset kind = iota
	object
	array
	text
	other
)

// maxDepth bounds how deep arguments are nested.
const maxDepth = 64

var errPlace = errors.New("its place is another value's")

// set takes in a partialArg: a value, or a piece of a string, and its place.
func (a *argument) set(v *fastjson.Value) error {
	path := string(v.GetStringBytes("jsonPath"))
	rest, ok := strings.CutPrefix(path, "$")
	if !ok {
		return fmt.Errorf("%s is no JSON path", strconv.Quote(path))
	}
	for depth := 0; rest != ""; depth++ {
		if depth == maxDepth {
			return errors.New("it is nested too deep")
		}
		name, index, after, err := segment(rest)
		if err != nil {
			return fmt.Errorf("%s: %w", strconv.Quote(path), err)
		}
		if a, err = a.member(name, index); err != nil {
			return err
		}
		rest = after
	}
	if piece := v.Get("stringValue"); piece != nil {
		if a.kind != unset && a.kind != text {
			return errPlace
		}
		a.kind = text
		a.text = upstream.AppendText(a.text, piece.GetStringBytes())
		return nil
	}
	for _, name := range [...]string{"numberValue", "boolValue", "nullValue"} {
		value := v.Get(name)
		if value == nil {
			continue
		}
		if a.kind != unset {
			return errPlace
		}
		a.kind = other
		if name == "nullValue" { // it reads "NULL_VALUE"
			value = nil
		}
		a.text = jsontext.AppendValue(nil, value)
		return nil
	}
	return nil // it only says that something will come
}

// member is the member of a name, or of an index where that is not negative. It
// is made where it is not there yet.
func (a *argument) member(name string, index int) (*argument, error) {
	want := object
	if index >= 0 {
		want = array
	}
	if a.kind == unset {
		a.kind = want
	}
	if a.kind != want {
		return nil, errPlace
	}
	if want == object {
		for i := range a.names {
			if a.names[i] == name {
				return a.members[i], nil
			}
		}
		a.names = append(a.names, name)
	} else {
		if index < len(a.members) {
			return a.members[index], nil
		}
		if index > len(a.members) {
			return nil, errors.New("an element before it is missing")
		}
	}
	m := new(argument)
	a.members = append(a.members, m)
	return m, nil
}

// append appends the value as JSON. What never came to be is null.
func (a *argument) append(dst []byte) []byte {
	switch a.kind {
	case unset:
		return append(dst, "null"...)
	case text:
		return jsontext.AppendString(dst, a.text)
	case other:
		return append(dst, a.text...)
	}
	marks := "{}"
	if a.kind == array {
		marks = "[]"
	}
	dst = append(dst, marks[0])
	for i, m := range a.members {
		if i > 0 {
			dst = append(dst, ',')
		}
		if a.kind == object {
			dst = append(jsontext.AppendString(dst, a.names[i]), ':')
		}
		dst = m.append(dst)
	}
	return append(dst, marks[1])
}

var errSegment = errors.New("no place of a single value")

// segment reads the first segment of a JSON path that names one value (RFC 9535,
// section 2.5.1): .name, ['name'], ["name"] or [index]. The index is negative
// where it is a name.
func segment(path string) (name string, index int, rest string, err error) {
	if path[0] == '.' {
		end := strings.IndexAny(path[1:], ".[") + 1
		if end == 0 {
			end = len(path)
		}
		if name = path[1:end]; name == "" || name == "*" {
			return "", 0, "", errSegment
		}
		return name, -1, path[end:], nil
	}
	if path[0] != '[' || len(path) < 3 {
		return "", 0, "", errSegment
	}
	if quote := path[1]; quote != '\'' && quote != '"' {
		inner, rest, ok := strings.Cut(path[1:], "]")
		index, err := strconv.ParseUint(inner, 10, 31)
		if !ok || err != nil {
			return "", 0, "", errSegment
		}
		return "", int(index), rest, nil
	}
	return quoted(path[1:])
}

// quoted reads a name in quotes and the bracket after it. The escapes are JSON's
// and that of the single quote.
func quoted(path string) (name string, index int, rest string, err error) {
	var inner bytes.Buffer
	inner.WriteByte('"')
	for i := 1; i < len(path); i++ {
		switch c := path[i]; {
		case c == path[0]:
			rest, ok := strings.CutPrefix(path[i+1:], "]")
			inner.WriteByte('"')
			v, err := fastjson.ParseBytes(inner.Bytes())
			if !ok || err != nil {
				return "", 0, "", errSegment
			}
			return string(v.GetStringBytes()), -1, rest, nil
		case c == '\\' && i+1 < len(path):
			i++
			if path[i] != '\'' {
				inner.WriteByte('\\')
			}
			inner.WriteByte(path[i])
		case c == '"':
			inner.WriteString(`\"`)
		default:
			inner.WriteByte(c)
		}
	}
	return "", 0, "", errSegment
}
