package gemini

import (
	"fmt"
	"strings"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// The wire format of streamGenerateContent and generateContent, byte by byte as
// Google sends it: CRLF, and blanks after colons.

const modelVersion = "gemini-2.5-flash"

// event frames a chunk.
func event(chunk string) string { return "data: " + chunk + "\r\n\r\n" }

// textChunk is a piece of text.
func textChunk(text string) string {
	return event(fmt.Sprintf(`{"candidates": [{"content": {"parts": [{"text": %s}],"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": 9,"totalTokenCount": 9,"promptTokensDetails": [{"modality": "TEXT","tokenCount": 9}]},"modelVersion": "%s","responseId": "JPozaonvK7yzvdIPrJ7FyAk"}`, quote(text), modelVersion))
}

// thoughtChunk is a piece of the model's thinking.
func thoughtChunk(text string) string {
	return strings.Replace(textChunk(text), `}],"role"`, `,"thought": true}],"role"`, 1)
}

// finishChunk ends an answer, with a last piece of text and the usage.
func finishChunk(reason, text string, tokens int) string {
	return event(fmt.Sprintf(`{"candidates": [{"content": {"parts": [{"text": %s}],"role": "model"},"finishReason": "%s","index": 0}],"usageMetadata": {"promptTokenCount": 9,"candidatesTokenCount": %d,"totalTokenCount": %d,"promptTokensDetails": [{"modality": "TEXT","tokenCount": 9}]},"modelVersion": "%s","responseId": "JPozaonvK7yzvdIPrJ7FyAk"}`, quote(text), reason, tokens, 9+tokens, modelVersion))
}

// emptyFinish ends an answer without any content.
func emptyFinish(reason string) string {
	return event(fmt.Sprintf(`{"candidates": [{"finishReason": "%s","index": 0}],"usageMetadata": {"promptTokenCount": 9,"totalTokenCount": 9},"modelVersion": "%s"}`, reason, modelVersion))
}

// toolChunk is a function call.
const toolChunk = "data: " + `{"candidates": [{"content": {"parts": [{"functionCall": {"name": "get_weather","args": {"location": "Utrecht"}}}],"role": "model"},"index": 0}],"modelVersion": "gemini-2.5-flash"}` + "\r\n\r\n"

// toolAnswer is an answer, or a chunk of one, with tool calls. Of their ids the
// API gives none, and no arguments if there are none.
func toolAnswer(text string, calls ...providers.ToolCall) string {
	var parts []string
	if text != "" {
		parts = append(parts, `{"text": `+quote(text)+`}`)
	}
	for _, c := range calls {
		args := ""
		if c.Arguments != "{}" {
			args = `,"args": ` + c.Arguments
		}
		parts = append(parts, `{"functionCall": {"name": `+quote(c.Name)+args+`}}`)
	}
	return `{"candidates": [{"content": {"parts": [` + strings.Join(parts, ",") + `],"role": "model"},"finishReason": "STOP","index": 0}],"modelVersion": "gemini-2.5-flash"}`
}

// blockedChunk refuses the prompt.
const blockedChunk = "data: " + `{"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},"usageMetadata": {"promptTokenCount": 9,"totalTokenCount": 9},"modelVersion": "gemini-2.5-flash"}` + "\r\n\r\n"

// chunks are the pieces of some text.
func chunks(words ...string) []string {
	events := make([]string, len(words))
	for i, w := range words {
		events[i] = textChunk(w)
	}
	return events
}

// wholeStream is a stream without faults.
func wholeStream(words ...string) pt.Reply {
	return pt.SSE(append(chunks(words...), finishChunk("STOP", "", len(words)))...)
}

// answer is a whole answer.
func answer(text, reason string, tokens int) pt.Reply {
	return pt.JSON(200, fmt.Sprintf(`{
  "candidates": [
    {
      "content": {
        "parts": [
          {
            "text": %s
          }
        ],
        "role": "model"
      },
      "finishReason": "%s",
      "index": 0
    }
  ],
  "usageMetadata": {
    "promptTokenCount": 9,
    "candidatesTokenCount": %d,
    "totalTokenCount": %d,
    "promptTokensDetails": [
      {
        "modality": "TEXT",
        "tokenCount": 9
      }
    ]
  },
  "modelVersion": "%s",
  "responseId": "JPozaonvK7yzvdIPrJ7FyAk"
}
`, quote(text), reason, tokens, 9+tokens, modelVersion))
}

// errorBody is the JSON of an error, with details if there are some.
func errorBody(code int, status, message string, details ...string) string {
	more := ""
	if len(details) > 0 {
		more = ",\n    \"details\": [\n      " + strings.Join(details, ",\n      ") + "\n    ]"
	}
	return fmt.Sprintf(`{
  "error": {
    "code": %d,
    "message": %s,
    "status": "%s"%s
  }
}
`, code, quote(message), status, more)
}

func errorInfo(reason string) string {
	return fmt.Sprintf(`{"@type": "type.googleapis.com/google.rpc.ErrorInfo","reason": "%s","domain": "googleapis.com"}`, reason)
}

func retryInfo(delay string) string {
	return fmt.Sprintf(`{"@type": "type.googleapis.com/google.rpc.RetryInfo","retryDelay": "%s"}`, delay)
}

const overloaded = "This model is currently experiencing high demand. Spikes in demand are usually temporary. Please try again later."

func quote(s string) string { return pt.Quote(s) }

func joined(r pt.Reply) string { return r.Text() }
