package dialect

import (
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
)

// AppendToolCalls appends the list of an answer's tool calls, as traces and our own
// API have it. Their arguments are JSON in a string, as in OpenAI's answers.
func AppendToolCalls(dst []byte, calls []providers.ToolCall) []byte {
	dst = append(dst, '[')
	for i := range calls {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"id":`...)
		dst = jsontext.AppendString(dst, calls[i].ID)
		dst = append(dst, `,"name":`...)
		dst = jsontext.AppendString(dst, calls[i].Name)
		dst = append(dst, `,"arguments":`...)
		dst = jsontext.AppendString(dst, calls[i].Arguments)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}
