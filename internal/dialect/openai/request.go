package openai

import (
	"strings"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// Model splits the member model into an endpoint's key and that of a variant, which is
// empty where none is named.
func Model(v *fastjson.Value) (endpoint, variant string, err *wire.Error) {
	if wire.IsNull(v) {
		return "", "", wire.Errorf(wire.InvalidRequest, "model", `"model" is required: the key of the endpoint.`)
	}
	if v.Type() != fastjson.TypeString {
		return "", "", wire.Errorf(wire.InvalidRequest, "model", `"model" must be a string, not %s.`, wire.Describe(v))
	}
	endpoint, variant, named := strings.Cut(Text(v), "@")
	if !wire.LegalKey(endpoint) || named && !wire.LegalKey(variant) {
		return "", "", wire.Errorf(wire.InvalidRequest, "model",
			`"model" is %q, but must be the key of an endpoint, or KEY@VARIANT: each 1 to %d of the characters A-Z a-z 0-9 . _ : / -`, wire.Clip(Text(v)), wire.MaxKeyLength)
	}
	return endpoint, variant, nil
}

// maxUser is how many bytes the caller's own user may have.
const maxUser = 512

// User reads the caller's own user from the member with the name.
func User(name string, v *fastjson.Value) (string, *wire.Error) {
	if v.Type() != fastjson.TypeString {
		return "", wire.Errorf(wire.InvalidRequest, name, "%q must be a string, not %s.", name, wire.Describe(v))
	}
	user := Text(v)
	if len(user) > maxUser {
		return "", wire.Errorf(wire.InvalidRequest, name, "%q has %d bytes, but may have %d.", name, len(user), maxUser)
	}
	return user, nil
}
