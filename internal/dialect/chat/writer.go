package chat

import (
	"strconv"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/openai"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// writer writes an answer.
type writer struct {
	usage bool // a stream ends with a chunk of usage

	// Of a stream:
	begun bool   // the chunk with the role was appended
	start []byte // of each chunk up to its delta; nil before the first
	room  [256]byte
}

// Pieces is true: thoughts and tool calls go out as they arrive.
func (w *writer) Pieces() bool { return true }

// Answer appends the body of a whole answer.
func (w *writer) Answer(dst []byte, a *dialect.Answer) []byte {
	dst = appendHead(dst, "chat.completion", a)
	dst = append(dst, `{"index":0,"message":{"role":"assistant","content":`...)
	text, refusal := a.Said()
	dst = appendText(dst, text, text != "" || len(a.ToolCalls) == 0 && !a.Refusal)
	dst = append(dst, `,"refusal":`...)
	dst = appendText(dst, refusal, a.Refusal || refusal != "")
	dst = append(dst, `,"annotations":[`...)
	n := 0
	for i := range a.Found {
		if f := &a.Found[i]; f.Kind == providers.FoundCitation {
			if n++; n > 1 {
				dst = append(dst, ',')
			}
			dst = appendCitation(dst, f)
		}
	}
	dst = append(dst, ']')
	dst = openai.AppendReasoning(dst, a)
	if len(a.ToolCalls) > 0 {
		dst = append(dst, `,"tool_calls":[`...)
		for i := range a.ToolCalls {
			if i > 0 {
				dst = append(dst, ',')
			}
			c := &a.ToolCalls[i]
			dst = appendCall(append(dst, '{'), c.ID, c.Name, c.Arguments)
		}
		dst = append(dst, ']')
	}
	dst = append(dst, `},"logprobs":`...)
	dst = appendLogprobs(dst, a.Logprobs, a.Refusal && text == "")
	dst = appendFinish(dst, a)
	dst = append(dst, `}],"usage":`...)
	return append(appendUsage(dst, a), '}')
}

// appendHead appends the beginning of an answer or of a chunk, up to its first choice.
func appendHead(dst []byte, object string, a *dialect.Answer) []byte {
	dst = append(dst, `{"id":"chatcmpl-`...)
	dst = a.AppendID(dst)
	dst = append(dst, `","object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = strconv.AppendInt(dst, a.Time.Unix(), 10)
	dst = append(dst, `,"model":`...)
	dst = jsontext.AppendString(dst, a.Key)
	dst = append(dst, `,"system_fingerprint":"fp_`...)
	dst = append(dst, a.Revision[:min(len(a.Revision), 10)]...)
	return append(dst, `","choices":[`...)
}

// appendText appends a text, or null if ok is false.
func appendText(dst []byte, text string, ok bool) []byte {
	if !ok {
		return append(dst, "null"...)
	}
	return jsontext.AppendString(dst, text)
}

// appendCall appends a tool call behind its brace.
func appendCall(dst []byte, id, name, arguments string) []byte {
	dst = append(dst, `"id":`...)
	dst = jsontext.AppendString(dst, id)
	dst = append(dst, `,"type":"function","function":{"name":`...)
	dst = jsontext.AppendString(dst, name)
	dst = append(dst, `,"arguments":`...)
	dst = jsontext.AppendString(dst, arguments)
	return append(dst, `}}`...)
}

// appendLogprobs appends the log probabilities of the tokens of the content, or of the
// refusal.
func appendLogprobs(dst, list []byte, refusal bool) []byte {
	if len(list) == 0 {
		return append(dst, "null"...)
	}
	if refusal {
		dst = append(dst, `{"content":null,"refusal":`...)
	} else {
		dst = append(dst, `{"content":`...)
	}
	dst = openai.AppendLogprobs(dst, list)
	if refusal {
		return append(dst, '}')
	}
	return append(dst, `,"refusal":null}`...)
}

// appendCitation appends a citation of a search.
func appendCitation(dst []byte, f *providers.Found) []byte {
	dst = strconv.AppendInt(append(dst, `{"type":"url_citation","url_citation":{"end_index":`...), int64(f.To), 10)
	dst = strconv.AppendInt(append(dst, `,"start_index":`...), int64(f.From), 10)
	dst = dialect.AppendMember(dst, "title", f.Sources[0].Title)
	return append(dialect.AppendMember(dst, "url", f.Sources[0].URL), `}}`...)
}

// appendFinish appends why the model stopped. The words are OpenAI's own.
func appendFinish(dst []byte, a *dialect.Answer) []byte {
	reason := a.FinishReason
	if reason == "" {
		reason = providers.FinishStop
	}
	dst = append(dst, `,"finish_reason":`...)
	return jsontext.AppendString(dst, string(reason))
}

func appendUsage(dst []byte, a *dialect.Answer) []byte {
	u := &a.Usage
	dst = append(dst, `{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, u.PromptTokens, 10)
	dst = append(dst, `,"completion_tokens":`...)
	dst = strconv.AppendInt(dst, u.CompletionTokens, 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, u.TotalTokens, 10)
	dst = append(dst, `,"prompt_tokens_details":{"cached_tokens":`...)
	dst = strconv.AppendInt(dst, u.CachedTokens, 10)
	dst = dialect.AppendTokens(dst, `,"cache_write_tokens":`, u.CacheWriteTokens+u.CacheWriteHourTokens)
	dst = append(dst, `,"audio_tokens":`...)
	dst = strconv.AppendInt(dst, u.PromptAudioTokens, 10)
	dst = dialect.AppendTokens(dst, `,"image_tokens":`, u.PromptImageTokens)
	dst = append(dst, `},"completion_tokens_details":{"reasoning_tokens":`...)
	dst = strconv.AppendInt(dst, u.ReasoningTokens, 10)
	dst = append(dst, `,"audio_tokens":`...)
	dst = strconv.AppendInt(dst, u.CompletionAudioTokens, 10)
	dst = dialect.AppendTokens(dst, `,"image_tokens":`, u.CompletionImageTokens)
	return append(dst, `,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`...)
}

// Delta appends a chunk for each of the pieces that d has.
func (w *writer) Delta(dst []byte, a *dialect.Answer, d providers.Delta) []byte {
	dst = w.begin(dst, a, d.Content != "" || d.Thinking == "" && d.Thought == nil && len(d.Calls) == 0)
	if d.Thinking != "" {
		dst = append(append(dst, w.start...), `"reasoning_content":`...)
		dst = w.end(jsontext.AppendString(dst, d.Thinking), nil)
	}
	if d.Content != "" || len(d.Logprobs) > 0 {
		member := `"content":`
		if d.Refusal {
			member = `"refusal":`
		}
		dst = append(append(dst, w.start...), member...)
		dst = w.end(jsontext.AppendString(dst, d.Content), d.Logprobs)
	}
	if d.Found != nil && d.Found.Kind == providers.FoundCitation {
		dst = appendCitation(append(append(dst, w.start...), `"annotations":[`...), d.Found)
		dst = w.end(append(dst, ']'), nil)
	}
	for i := range d.Calls {
		dst = w.piece(dst, &d.Calls[i])
	}
	return dst
}

// piece appends a chunk with a piece of a tool call.
func (w *writer) piece(dst []byte, c *providers.CallPiece) []byte {
	if c.ID == "" && c.Arguments == "" {
		return dst
	}
	dst = append(append(dst, w.start...), `"tool_calls":[{"index":`...)
	dst = append(strconv.AppendInt(dst, int64(c.Index), 10), ',')
	if c.ID != "" {
		dst = appendCall(dst, c.ID, c.Name, c.Arguments)
	} else {
		dst = append(dst, `"function":{"arguments":`...)
		dst = append(jsontext.AppendString(dst, c.Arguments), `}}`...)
	}
	return w.end(append(dst, ']'), nil)
}

// begin appends the chunk with the role before any other.
func (w *writer) begin(dst []byte, a *dialect.Answer, text bool) []byte {
	if w.begun {
		return dst
	}
	w.begun = true
	w.start = appendHead(append(w.room[:0], "data: "...), "chat.completion.chunk", a)
	w.start = append(w.start, `{"index":0,"delta":{`...)
	dst = append(append(dst, w.start...), `"role":"assistant","content":`...)
	dst = appendText(dst, "", text)
	dst = w.end(append(dst, `,"refusal":null`...), nil)
	return dst
}

// end ends a chunk behind its delta's members.
func (w *writer) end(dst, logprobs []byte) []byte {
	dst = append(dst, `},"logprobs":`...)
	dst = appendLogprobs(dst, logprobs, false)
	dst = append(dst, `,"finish_reason":null}]`...)
	return w.close(dst)
}

// close ends a chunk behind its choices.
func (w *writer) close(dst []byte) []byte {
	if w.usage {
		dst = append(dst, `,"usage":null`...)
	}
	return append(dst, "}\n\n"...)
}

// Heartbeat appends a comment.
func (w *writer) Heartbeat(dst []byte, _ *dialect.Answer) []byte {
	return append(dst, ": keep-alive\n\n"...)
}

// Finish appends a chunk with all reasoning_details, if there are any, one with the
// reason why the model stopped, one with the usage if the caller asked for it, and
// [DONE]. The details come at once because some libraries keep only the last chunk's
// details, and others join the details of all chunks.
func (w *writer) Finish(dst []byte, a *dialect.Answer) []byte {
	dst = w.begin(dst, a, len(a.ToolCalls) == 0)
	if a.Explanation != "" {
		dst = w.Delta(dst, a, providers.Delta{Content: a.Explanation, Refusal: true})
	}
	if openai.HasOpaque(a) {
		dst = w.end(openai.AppendDetails(append(dst, w.start...), a), nil)
	}
	dst = append(append(dst, w.start...), `},"logprobs":null`...)
	dst = w.close(append(appendFinish(dst, a), `}]`...))
	if w.usage {
		dst = appendHead(append(dst, "data: "...), "chat.completion.chunk", a)
		dst = append(dst, `],"usage":`...)
		dst = append(appendUsage(dst, a), "}\n\n"...)
	}
	return append(dst, "data: [DONE]\n\n"...)
}

// Fail appends an error, which OpenAI's libraries raise.
func (w *writer) Fail(dst []byte, _ *dialect.Answer, e *wire.Error) []byte {
	dst = e.AppendObject(append(dst, `data: {"error":`...))
	return append(dst, "}\n\n"...)
}
