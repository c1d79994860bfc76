// Package openai reads the shapes that OpenAI's APIs
// (https://platform.openai.com/docs/api-reference) have in common: messages with their
// parts, tools, the choice of tools, and parameters. The dialects chat and responses
// and our own API's `messages` share it; Anthropic's API has some of it, too.
//
// A member is read, refused by its path, or named in the list of members without an
// effect, as is one that is not known. A null member counts as absent. Texts are views of the
// request, and inline data is checked but neither decoded nor copied.
package openai

import (
	"slices"
	"strconv"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// Path is the path of a value in a request. It becomes a text only if an error or the
// list of ignored members needs one. A nil Path is the request itself.
type Path struct {
	up    *Path
	name  string // of a member; empty for an element
	index int    // of an element
}

// At returns the path of a member of the request, or the path that a text is.
func At(name string) *Path { return &Path{name: name} }

// Member returns the path of a member of the object at p.
func (p *Path) Member(name string) *Path { return &Path{up: p, name: name} }

// Element returns the path of an element of the list at p.
func (p *Path) Element(index int) *Path { return &Path{up: p, index: index} }

func (p *Path) appendTo(dst []byte) []byte {
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
func (p *Path) String() string { return string(p.appendTo(make([]byte, 0, 64))) }

// Wrong returns the error of the value at p. The message begins with the path.
func (p *Path) Wrong(format string, args ...any) *wire.Error {
	return dialect.Wrong(p.String(), format, args...)
}

// Unknown names a member of the object at p that no table has.
func (p *Path) Unknown(c *dialect.Call, name []byte) {
	c.IgnoreUnknown(p.Member(wire.Clip(string(name))).String())
}

// Text returns the text of a string as a view of the request. It is empty for any other
// value.
func Text(v *fastjson.Value) string { return jsontext.View(v.GetStringBytes()) }

// String reads a string.
func String(at *Path, v *fastjson.Value) (string, *wire.Error) {
	if wire.IsNull(v) {
		return "", at.Wrong("is required: a string.")
	}
	if v.Type() != fastjson.TypeString {
		return "", at.Wrong("must be a string, not %s.", wire.Describe(v))
	}
	return Text(v), nil
}

// Literal reads a string of a body as it stands there.
func Literal(r *wire.Request, at *Path, v *fastjson.Value) (providers.Text, *wire.Error) {
	if _, err := String(at, v); err != nil {
		return "", err
	}
	return r.Literal(v), nil
}

// Filled reads a string that is not empty.
func Filled(at *Path, v *fastjson.Value) (string, *wire.Error) {
	s, err := String(at, v)
	if err == nil && s == "" {
		err = at.Wrong("must not be empty.")
	}
	return s, err
}

// Object reads an object.
func Object(at *Path, v *fastjson.Value) (*fastjson.Object, *wire.Error) {
	if v == nil {
		return nil, at.Wrong("is required: an object.")
	}
	if v.Type() != fastjson.TypeObject {
		return nil, at.Wrong("must be an object, not %s.", wire.Describe(v))
	}
	return v.GetObject(), nil
}

// Array reads a list.
func Array(at *Path, v *fastjson.Value) ([]*fastjson.Value, *wire.Error) {
	if v.Type() != fastjson.TypeArray {
		return nil, at.Wrong("must be an array, not %s.", wire.Describe(v))
	}
	return v.GetArray(), nil
}

// Bool reads true or false.
func Bool(at *Path, v *fastjson.Value) (bool, *wire.Error) {
	is, notBool := v.Bool()
	if notBool != nil {
		return false, at.Wrong("must be true or false, not %s.", wire.Describe(v))
	}
	return is, nil
}

// Whole reads a whole number from least to most.
func Whole(at *Path, v *fastjson.Value, least, most int64) (*int64, *wire.Error) {
	if v.Type() != fastjson.TypeNumber {
		return nil, at.Wrong("must be a whole number, not %s.", wire.Describe(v))
	}
	n, notWhole := v.Int64()
	if notWhole != nil || n < least || n > most {
		return nil, at.Wrong("must be a whole number from %d to %d.", least, most)
	}
	return &n, nil
}

// Others names the members of the object at a path that are not among names.
func Others(c *dialect.Call, at *Path, o *fastjson.Object, names ...string) {
	o.Visit(func(key []byte, v *fastjson.Value) {
		if v.Type() != fastjson.TypeNull && !slices.Contains(names, string(key)) {
			at.Unknown(c, key)
		}
	})
}
