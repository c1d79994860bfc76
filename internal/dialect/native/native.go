// Package native is our own API: POST /v1/endpoints.
package native

import (
	"strconv"
	"sync"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/openai"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// Dialect is our own API.
var Dialect dialect.Dialect = native{}

type native struct{}

// AppendError appends an error's own body.
func (native) AppendError(dst []byte, e *wire.Error) []byte { return e.AppendJSON(dst) }

// Parse reads a request's body.
func (native) Parse(r *wire.Request) (*dialect.Call, dialect.Writer, *wire.Error) {
	request, err := r.Endpoint()
	if err != nil {
		return nil, nil, err
	}
	w := writers.Get().(*writer)
	c := &w.call
	c.Endpoint, c.Variant, c.EndpointParam, c.TurnsParam = request.Key, request.Variant, "key", "messages"
	c.Stream, c.RemoteConfigs = request.Stream, request.RemoteConfigs
	c.Context, c.Metadata, c.Variables = request.Context, request.Metadata, request.Variables
	if request.Brought == [4]*fastjson.Value{} {
		return &w.call, w, nil
	}
	if err := parseBrought(r, &w.call, request.Brought); err != nil {
		return nil, nil, err
	}
	return &w.call, w, nil
}

// parseBrought reads messages, tools, tool_choice and parameters, in OpenAI's shapes.
func parseBrought(body *wire.Request, c *dialect.Call, brought [4]*fastjson.Value) *wire.Error {
	r := openai.Request{Wire: body, Call: c}
	if err := r.Messages(brought[0]); err != nil {
		return err
	}
	if err := r.Tools(brought[1]); err != nil {
		return err
	}
	if err := r.ToolChoice(brought[2]); err != nil {
		return err
	}
	if err := openai.Parameters(openai.At("parameters"), brought[3], c); err != nil {
		return err
	}
	r.PlaceMarks(c.Turns)
	if c.Unknown != "" {
		// No library of others adds members to our own API: they are mistakes.
		return dialect.NotKnown(c.Unknown)
	}
	return nil
}

var writers = sync.Pool{New: func() any { return new(writer) }}

// Release returns the writer and the call to their pool. Neither may be used
// afterwards.
func (w *writer) Release() {
	*w = writer{}
	writers.Put(w)
}

// writer writes an answer. It holds the call, too, so that both are one allocation.
type writer struct {
	call   dialect.Call
	begun  bool   // the stream's first event was appended
	prefix []byte // of each event up to its content; nil before the first
	room   [96]byte
}

// Answer appends the body of a whole answer.
func (w *writer) Answer(dst []byte, a *dialect.Answer) []byte {
	dst = append(dst, `{"trace_id":`...)
	dst = jsontext.AppendString(dst, a.TraceID)
	dst = append(dst, `,"content":`...)
	dst = jsontext.AppendString(dst, a.Content)
	if a.Explanation != "" {
		dst = append(jsontext.AppendEscaped(dst[:len(dst)-1], a.Explanation), '"')
	}
	dst = append(dst, `,"is_final":true`...)
	dst = appendToolCalls(dst, a.ToolCalls)
	dst = openai.AppendReasoning(dst, a)
	dst = appendEnding(dst, a)
	if a.Extra != nil {
		dst = a.Extra(dst)
	}
	return append(dst, '}')
}

// Pieces is false: tool calls come as one list, in an event of their own.
func (w *writer) Pieces() bool { return false }

// Delta appends an event with a piece of the content.
func (w *writer) Delta(dst []byte, a *dialect.Answer, d providers.Delta) []byte {
	if d.Content == "" {
		return dst
	}
	dst = jsontext.AppendEscaped(w.begin(dst, a), d.Content)
	return w.end(append(dst, `","is_final":false`...), a)
}

// Heartbeat appends an event without content: some clients break on comments.
func (w *writer) Heartbeat(dst []byte, a *dialect.Answer) []byte {
	return append(w.begin(dst, a), "\",\"is_final\":false}\n\n"...)
}

// Finish appends an event with the tool calls, if there are any, an event with
// is_final that has the thoughts and says how the answer ended, and [DONE].
func (w *writer) Finish(dst []byte, a *dialect.Answer) []byte {
	dst = w.Delta(dst, a, providers.Delta{Content: a.Explanation})
	if len(a.ToolCalls) > 0 {
		dst = append(w.begin(dst, a), `","is_final":false`...)
		dst = w.end(appendToolCalls(dst, a.ToolCalls), a)
	}
	dst = append(w.begin(dst, a), `","is_final":true`...)
	dst = w.end(appendEnding(openai.AppendReasoning(dst, a), a), a)
	return append(dst, "data: [DONE]\n\n"...)
}

// Fail appends an event of the type error.
func (w *writer) Fail(dst []byte, a *dialect.Answer, e *wire.Error) []byte {
	dst = w.begin(append(dst, "event: error\n"...), a)
	dst = append(dst, `","is_final":false,"error":`...)
	return append(e.AppendObject(dst), "}\n\n"...)
}

// begin appends an event up to its content.
func (w *writer) begin(dst []byte, a *dialect.Answer) []byte {
	if w.prefix == nil {
		w.prefix = append(w.room[:0], `data: {"trace_id":`...)
		w.prefix = jsontext.AppendString(w.prefix, a.TraceID)
		w.prefix = append(w.prefix, `,"content":"`...)
	}
	return append(dst, w.prefix...)
}

// end ends an event. The first one also has the extra members.
func (w *writer) end(dst []byte, a *dialect.Answer) []byte {
	if !w.begun {
		w.begun = true
		if a.Extra != nil {
			dst = a.Extra(dst)
		}
	}
	return append(dst, "}\n\n"...)
}

func appendToolCalls(dst []byte, calls []providers.ToolCall) []byte {
	if len(calls) == 0 {
		return dst
	}
	return dialect.AppendToolCalls(append(dst, `,"tool_calls":`...), calls)
}

// appendEnding appends the members about the end of the answer. It leaves out
// unknown values.
func appendEnding(dst []byte, a *dialect.Answer) []byte {
	if a.FinishReason != "" {
		dst = append(dst, `,"finish_reason":`...)
		dst = jsontext.AppendString(dst, string(a.FinishReason))
	}
	u := &a.Usage
	if !u.Counted() {
		return dst
	}
	dst = append(dst, `,"usage":{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, u.PromptTokens, 10)
	dst = append(dst, `,"completion_tokens":`...)
	dst = strconv.AppendInt(dst, u.CompletionTokens, 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, u.TotalTokens, 10)
	dst = dialect.AppendTokens(dst, `,"cached_tokens":`, u.CachedTokens)
	dst = dialect.AppendTokens(dst, `,"cache_write_tokens":`, u.CacheWriteTokens+u.CacheWriteHourTokens)
	dst = dialect.AppendTokens(dst, `,"reasoning_tokens":`, u.ReasoningTokens)
	if a.Estimated {
		dst = append(dst, `,"estimated":true`...)
	}
	return append(dst, '}')
}
