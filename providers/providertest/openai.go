package providertest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cadenza-gateway/cadenza/providers"
)

// The OpenAI wire format, with the bytes that the service sends:
// https://platform.openai.com/docs/api-reference/chat/streaming

// The end marker of a stream and the media types.
const (
	Done      = "data: [DONE]\n\n"
	MediaSSE  = "text/event-stream; charset=utf-8"
	MediaJSON = "application/json"
)

// Event returns data as one server-sent event.
func Event(data string) string { return "data: " + data + "\n\n" }

// RoleChunk returns the first chunk of a stream, which has no content.
func RoleChunk() string {
	return Event(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1763720000,"model":"gpt-4o-mini-2024-07-18","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null}`)
}

// ContentChunk returns a chunk with content.
func ContentChunk(content string) string {
	return Event(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1763720000,"model":"gpt-4o-mini-2024-07-18","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":` + Quote(content) + `},"logprobs":null,"finish_reason":null}],"usage":null}`)
}

// FinishChunk returns the chunk that ends the content.
func FinishChunk(reason string) string {
	return Event(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1763720000,"model":"gpt-4o-mini-2024-07-18","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":` + Quote(reason) + `}],"usage":null}`)
}

// UsageChunk returns the chunk with the usage, which follows FinishChunk.
func UsageChunk(prompt, completion int) string {
	return Event(fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1763720000,"model":"gpt-4o-mini-2024-07-18","service_tier":"default","system_fingerprint":"fp_1","choices":[],"usage":%s}`, usage(prompt, completion)))
}

// ToolChunks returns the chunks of a tool call: its name, then its arguments in two parts.
func ToolChunks(index int, id, name, arguments string) []string {
	chunk := func(call string) string {
		return Event(fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1763720000,"model":"gpt-4o-mini-2024-07-18","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"tool_calls":[{"index":%d,%s}]},"logprobs":null,"finish_reason":null}],"usage":null}`, index, call))
	}
	halves := halvesOf(arguments)
	return []string{
		chunk(`"id":` + Quote(id) + `,"type":"function","function":{"name":` + Quote(name) + `,"arguments":""}`),
		chunk(`"function":{"arguments":` + Quote(halves[0]) + `}`),
		chunk(`"function":{"arguments":` + Quote(halves[1]) + `}`),
	}
}

// halvesOf cuts a text in the middle, between two characters.
func halvesOf(text string) [2]string {
	half := len(text) / 2
	for half > 0 && !utf8.RuneStart(text[half]) {
		half--
	}
	return [2]string{text[:half], text[half:]}
}

// OpenAIToolCalls returns a whole answer with tool calls. An empty content is sent as null.
func OpenAIToolCalls(content string, completionTokens int, calls ...providers.ToolCall) Reply {
	said := "null"
	if content != "" {
		said = Quote(content)
	}
	list := make([]string, len(calls))
	for i, c := range calls {
		list[i] = `{"id":` + Quote(c.ID) + `,"type":"function","function":{"name":` + Quote(c.Name) + `,"arguments":` + Quote(c.Arguments) + `}}`
	}
	r := OpenAIAnswer("\x00", completionTokens)
	r.Body[0] = strings.Replace(r.Body[0], `"content": `+Quote("\x00"), `"content": `+said+`,
        "tool_calls": [`+strings.Join(list, ", ")+`]`, 1)
	r.Body[0] = strings.Replace(r.Body[0], `"finish_reason": "stop"`, `"finish_reason": "tool_calls"`, 1)
	return r
}

// OpenAIStream returns a whole stream: role, words, finish, usage, end marker.
func OpenAIStream(words ...string) Reply {
	body := []string{RoleChunk()}
	for _, w := range words {
		body = append(body, ContentChunk(w))
	}
	body = append(body, FinishChunk("stop"), UsageChunk(9, len(words)), Done)
	return Reply{Header: map[string]string{"Content-Type": MediaSSE}, Body: body}
}

// SSE returns a stream of the given pieces.
func SSE(pieces ...string) Reply {
	return Reply{Header: map[string]string{"Content-Type": MediaSSE}, Body: pieces}
}

// JSON returns an answer with one JSON text.
func JSON(status int, body string) Reply {
	return Reply{Status: status, Header: map[string]string{"Content-Type": MediaJSON}, Body: []string{body}}
}

// OpenAIAnswer returns a whole answer.
func OpenAIAnswer(content string, completionTokens int) Reply {
	return JSON(200, `{
  "id": "chatcmpl-1",
  "object": "chat.completion",
  "created": 1763720000,
  "model": "gpt-4o-mini-2024-07-18",
  "choices": [
    {
      "index": 0,
      "message": {
        "role": "assistant",
        "content": `+Quote(content)+`,
        "refusal": null,
        "annotations": []
      },
      "logprobs": null,
      "finish_reason": "stop"
    }
  ],
  "usage": `+usage(9, completionTokens)+`,
  "service_tier": "default",
  "system_fingerprint": "fp_1"
}
`)
}

// OpenAIError returns an error answer.
func OpenAIError(status int, kind, code, message string) Reply {
	return JSON(status, ErrorObject(kind, code, message))
}

// ErrorObject returns the JSON of an error.
func ErrorObject(kind, code, message string) string {
	return `{"error":{"message":` + Quote(message) + `,"type":` + Quote(kind) + `,"param":null,"code":` + Quote(code) + `}}`
}

// OpenAIBehaviour returns the reply of a behaviour in OpenAI's wire format.
func OpenAIBehaviour(b Behaviour, stream bool) Reply {
	failure := ErrorObject("server_error", "boom", "It broke.")
	switch {
	case b.Status != 0:
		return b.Rejection(ErrorObject("requests", b.Code, "Slow down."))
	case stream:
		var calls []string
		reason, tokens := b.Reason("stop", "length", "content_filter"), len(b.Words)
		for i, c := range b.Tools {
			calls = append(calls, ToolChunks(i, c.ID, c.Name, c.Arguments)...)
			reason, tokens = "tool_calls", 9
		}
		r := OpenAIStream(b.Words...)
		r.Body = append(r.Body[:1+len(b.Words)], calls...)
		if b.Thought != nil {
			var thought []string
			for _, detail := range [...]string{`"text":` + Quote(b.Thought.Text[:9]), `"text":` + Quote(b.Thought.Text[9:]), `"signature":` + Quote(b.Thought.Opaque)} {
				thought = append(thought, strings.Replace(ContentChunk(""), `"content":""`, `"content":"","reasoning_details":[{"type":"reasoning.text",`+detail+`,"index":0}]`, 1))
			}
			r.Body = slices.Insert(r.Body, 1, thought...)
		}
		return b.Streamed(r, Event(failure), FinishChunk(reason), UsageChunk(9, tokens), Done)
	}
	r := OpenAIAnswer(strings.Join(b.Words, ""), len(b.Words))
	if len(b.Tools) > 0 {
		r = OpenAIToolCalls(strings.Join(b.Words, ""), 9, b.Tools...)
	}
	if b.Thought != nil {
		r.Body[0] = strings.Replace(r.Body[0], `"refusal": null`, `"reasoning_details": [{"type":"reasoning.text","text":`+Quote(b.Thought.Text)+`,"signature":`+Quote(b.Thought.Opaque)+`}]`, 1)
	}
	r.Body[0] = strings.Replace(r.Body[0], `"finish_reason": "stop"`, `"finish_reason": `+Quote(b.Reason("stop", "length", "content_filter")), 1)
	return b.Whole(r, JSON(200, failure))
}

func usage(prompt, completion int) string {
	return `{"prompt_tokens":` + strconv.Itoa(prompt) + `,"completion_tokens":` + strconv.Itoa(completion) +
		`,"total_tokens":` + strconv.Itoa(prompt+completion) +
		`,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}`
}

// Quote returns text as a JSON string. A surrogate, which text has as the three bytes
// that its number would have in UTF-8, is written as an escape.
func Quote(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always marshals
	}
	if utf8.ValidString(text) {
		return string(b)
	}
	var quoted strings.Builder
	rest := text
	for i := 0; i+2 < len(rest); i++ {
		if rest[i] == 0xed && rest[i+1] >= 0xa0 {
			quoted.WriteString(strings.Trim(Quote(rest[:i]), `"`))
			fmt.Fprintf(&quoted, `\u%04x`, 0xd000|int(rest[i+1]&0x3f)<<6|int(rest[i+2]&0x3f))
			rest, i = rest[i+3:], -1
		}
	}
	quoted.WriteString(strings.Trim(Quote(rest), `"`))
	return `"` + quoted.String() + `"`
}
