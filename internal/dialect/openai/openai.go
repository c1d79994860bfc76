// Package openai reads what the shapes of OpenAI's APIs have in common: messages with
// their parts, tools, the choice of tools, and parameters. The dialects chat and
// responses and our own API's `messages` share it; Anthropic's API has some of it, too.
//
// All of it is strict. A member is read, refused by its path, or named in the list of
// what has no effect. A member that is null is as one that is absent. Texts are views
// of the request, and inline data is checked but neither decoded nor copied.
package openai

import (
	"strconv"
	"unsafe"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// path is where a value is in a request. It becomes a text only where an error or the
// list of ignored members needs one.
type path struct {
	up    *path
	name  string // of a member; empty for an element
	index int    // of an element
}

func (p *path) appendTo(dst []byte) []byte {
	if p.up != nil {
		dst = p.up.appendTo(dst)
	}
	if p.name == "" {
		dst = append(dst, '[')
		dst = strconv.AppendInt(dst, int64(p.index), 10)
		return append(dst, ']')
	}
	if len(dst) > 0 {
		dst = append(dst, '.')
	}
	return append(dst, p.name...)
}

// String returns the path as errors name it, such as messages[0].content[1].type.
func (p *path) String() string { return string(p.appendTo(make([]byte, 0, 64))) }

// errorf returns the error of the value at p. The message begins with the path.
func (p *path) errorf(format string, args ...any) *wire.Error {
	return dialect.Wrong(p.String(), format, args...)
}

// unknown returns the error of a member that an object at p must not have.
func (p *path) unknown(name []byte) *wire.Error {
	at := path{up: p, name: wire.Clip(string(name))}
	return at.errorf("is not known. Leave it out.")
}

// member returns the path of a member of the object at p.
func (p *path) member(name string) *path { return &path{up: p, name: name} }

// Unknown returns the error of a member that a request must not have. prefix is the
// path of its object with a dot, or empty.
func Unknown(prefix, name string) *wire.Error {
	return (&path{name: prefix + wire.Clip(name)}).errorf("is not known. Leave it out.")
}

// Text returns the text of a string as a view of the request. It is empty for any other
// value.
func Text(v *fastjson.Value) string { return View(v.GetStringBytes()) }

// View returns a request's bytes, such as a member's name, as a string without a copy.
func View(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// text reads a string.
func text(at *path, v *fastjson.Value) (string, *wire.Error) {
	if v == nil {
		return "", at.errorf("is required: a string.")
	}
	if v.Type() != fastjson.TypeString {
		return "", at.errorf("must be a string, not %s.", wire.Describe(v))
	}
	return Text(v), nil
}

// filled reads a string that is not empty.
func filled(at *path, v *fastjson.Value) (string, *wire.Error) {
	s, err := text(at, v)
	if err == nil && s == "" {
		err = at.errorf("must not be empty.")
	}
	return s, err
}

// object reads an object.
func object(at *path, v *fastjson.Value) (*fastjson.Object, *wire.Error) {
	if v == nil {
		return nil, at.errorf("is required: an object.")
	}
	if v.Type() != fastjson.TypeObject {
		return nil, at.errorf("must be an object, not %s.", wire.Describe(v))
	}
	return v.GetObject(), nil
}

// array reads a list.
func array(at *path, v *fastjson.Value) ([]*fastjson.Value, *wire.Error) {
	if v.Type() != fastjson.TypeArray {
		return nil, at.errorf("must be an array, not %s.", wire.Describe(v))
	}
	return v.GetArray(), nil
}

// boolean reads true or false.
func boolean(at *path, v *fastjson.Value) (bool, *wire.Error) {
	is, notBool := v.Bool()
	if notBool != nil {
		return false, at.errorf("must be true or false, not %s.", wire.Describe(v))
	}
	return is, nil
}
