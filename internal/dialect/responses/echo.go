package responses

import (
	"slices"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/openai"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// maxEcho bounds each member of a request that the answer repeats, in bytes. A stream
// has three response objects.
const maxEcho = 16 << 10

// appendEcho appends the end of a response object: the repeated members of the
// request, and the constant ones. Members of the request without an effect are not
// repeated, because the object reports the values in effect.
func appendEcho(dst []byte, body *fastjson.Object, c *dialect.Call) []byte {
	member := func(name string, v *fastjson.Value, absent string) {
		dst = append(dst, ',', '"')
		dst = append(dst, name...)
		dst = append(dst, '"', ':')
		start := len(dst)
		if !wire.IsNull(v) {
			dst = jsontext.AppendValue(dst, v)
		}
		if n := len(dst) - start; n == 0 || n > maxEcho {
			dst = append(dst[:start], absent...)
		}
	}
	member("instructions", body.Get("instructions"), "null")
	member("max_output_tokens", body.Get("max_output_tokens"), "null")
	dst = append(dst, `,"access_programs":null,"max_tool_calls":null`...)
	member("parallel_tool_calls", body.Get("parallel_tool_calls"), "true")
	dst = append(dst, `,"previous_response_id":null,"prompt_cache_key":null,"prompt_cache_retention":null,"reasoning":{"summary":null`...)
	member("effort", body.Get("reasoning").Get("effort"), "null")
	dst = append(dst, '}')
	member("safety_identifier", body.Get("safety_identifier"), "null")
	dst = append(dst, `,"service_tier":"default","store":false`...)
	member("temperature", body.Get("temperature"), "null")
	dst = append(dst, `,"text":{`...)
	first := len(dst)
	member("format", body.Get("text").Get("format"), `{"type":"text"}`)
	dst = slices.Delete(dst, first, first+len(","))
	dst = append(dst, '}')
	if c.Parameters.ToolChoice == nil {
		dst = append(dst, `,"tool_choice":"auto"`...)
	} else {
		member("tool_choice", body.Get("tool_choice"), `"auto"`)
	}
	dst = append(dst, `,"tools":[`...)
	start := len(dst)
	for _, tool := range body.Get("tools").GetArray() {
		if isOurs(openai.Text(tool.Get("type"))) {
			if len(dst) > start {
				dst = append(dst, ',')
			}
			dst = jsontext.AppendValue(dst, tool)
		}
	}
	if len(dst)-start > maxEcho {
		dst = dst[:start]
	}
	dst = append(dst, ']')
	member("top_logprobs", body.Get("top_logprobs"), "0")
	member("top_p", body.Get("top_p"), "null")
	dst = append(dst, `,"truncation":"disabled"`...)
	if prompt := body.Get("prompt"); !wire.IsNull(prompt) {
		member("prompt", prompt, "null")
	}
	if user := body.Get("user"); !wire.IsNull(user) {
		member("user", user, "null")
	}
	member("metadata", body.Get("metadata"), "{}")
	return append(dst, '}')
}
