package openai

import (
	"encoding/json"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// FunctionName reads the name of a tool or of a schema, of the form that every provider
// accepts.
func FunctionName(param string, v *fastjson.Value) (string, *wire.Error) {
	return functionName(&path{name: param}, v)
}

// Schema reads the JSON Schema of an object.
func Schema(param string, v *fastjson.Value) (json.RawMessage, *wire.Error) {
	return schema(&path{name: param}, v)
}

// Object reads an object.
func Object(param string, v *fastjson.Value) (*fastjson.Object, *wire.Error) {
	return object(&path{name: param}, v)
}

// Array reads a list.
func Array(param string, v *fastjson.Value) ([]*fastjson.Value, *wire.Error) {
	return array(&path{name: param}, v)
}

// Place is where an object is in a request of a dialect. It becomes a text only where an
// error needs one.
type Place interface {
	// Member returns the path of the object's member with the name.
	Member(name string) string
}

// TextMember reads a member that must be a string.
func TextMember[P Place](at P, name string, o *fastjson.Object) (string, *wire.Error) {
	v := o.Get(name)
	if wire.IsNull(v) {
		return "", dialect.Wrong(at.Member(name), "is required: a string.")
	}
	if v.Type() != fastjson.TypeString {
		return "", dialect.Wrong(at.Member(name), "must be a string, not %s.", wire.Describe(v))
	}
	return Text(v), nil
}

// FilledMember reads a member that must be a string and not empty.
func FilledMember[P Place](at P, name string, o *fastjson.Object) (string, *wire.Error) {
	s, err := TextMember(at, name, o)
	if err == nil && s == "" {
		err = dialect.Wrong(at.Member(name), "must not be empty.")
	}
	return s, err
}
