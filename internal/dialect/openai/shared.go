package openai

import (
	"encoding/json"

	"github.com/valyala/fastjson"

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
