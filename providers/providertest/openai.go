package providertest

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// The OpenAI wire format, byte by byte as the service sends it.

// The end marker of a stream and the media types.
const (
	Done      = "data: [DONE]\n\n"
	MediaSSE  = "text/event-stream; charset=utf-8"
	MediaJSON = "application/json"
)

// Event frames data as one server-sent event.
func Event(data string) string { return "data: " + data + "\n\n" }

// RoleChunk is the first chunk of a stream: it has no content.
func RoleChunk() string {
	return Event(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1763720000,"model":"gpt-4o-mini-2024-07-18","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null}`)
}

// ContentChunk is a chunk with content.
func ContentChunk(content string) string {
	return Event(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1763720000,"model":"gpt-4o-mini-2024-07-18","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":` + quote(content) + `},"logprobs":null,"finish_reason":null}],"usage":null}`)
}

// FinishChunk is the chunk that ends the content.
func FinishChunk(reason string) string {
	return Event(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1763720000,"model":"gpt-4o-mini-2024-07-18","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":` + quote(reason) + `}],"usage":null}`)
}

// UsageChunk is the chunk of usage that follows.
func UsageChunk(prompt, completion int) string {
	return Event(fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1763720000,"model":"gpt-4o-mini-2024-07-18","service_tier":"default","system_fingerprint":"fp_1","choices":[],"usage":%s}`, usage(prompt, completion)))
}

// OpenAIStream is a whole stream: role, words, finish, usage, end marker.
func OpenAIStream(words ...string) Reply {
	body := []string{RoleChunk()}
	for _, w := range words {
		body = append(body, ContentChunk(w))
	}
	body = append(body, FinishChunk("stop"), UsageChunk(9, len(words)), Done)
	return Reply{Header: map[string]string{"Content-Type": MediaSSE}, Body: body}
}

// SSE is a stream of the given pieces.
func SSE(pieces ...string) Reply {
	return Reply{Header: map[string]string{"Content-Type": MediaSSE}, Body: pieces}
}

// JSON is an answer of one JSON text.
func JSON(status int, body string) Reply {
	return Reply{Status: status, Header: map[string]string{"Content-Type": MediaJSON}, Body: []string{body}}
}

// OpenAIAnswer is a whole answer.
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
        "content": `+quote(content)+`,
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

// OpenAIError is an error answer.
func OpenAIError(status int, kind, code, message string) Reply {
	return JSON(status, ErrorObject(kind, code, message))
}

// ErrorObject is the JSON of an error.
func ErrorObject(kind, code, message string) string {
	return `{"error":{"message":` + quote(message) + `,"type":` + quote(kind) + `,"param":null,"code":` + quote(code) + `}}`
}

func usage(prompt, completion int) string {
	return `{"prompt_tokens":` + strconv.Itoa(prompt) + `,"completion_tokens":` + strconv.Itoa(completion) +
		`,"total_tokens":` + strconv.Itoa(prompt+completion) +
		`,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}`
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always marshals
	}
	return string(b)
}
