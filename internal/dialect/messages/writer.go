package messages

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// writer writes one answer. It holds the call, too, so that both are one allocation. In
// a stream one block at a time is open.
//
// A member without a value is null only where answers of the API itself have the null.
// Its libraries' types allow more of them, but clients that check what they read don't.
type writer struct {
	call dialect.Call

	// Of a stream:
	begun  bool
	open   kind
	blocks int                // how many have begun
	calls  int                // of them, calls
	piece  int                // which of the provider's calls is open
	late   providers.ToolCall // the open call, if its data came after its beginning
	id     string             // of the open call
}

// kind is a kind of block.
type kind uint8

const (
	nothing kind = iota
	thinking
	text
	refusal // a text in a block of its own
	toolUse
	serverTool // of a tool of the API's own
)

// Pieces is true: thoughts and tool calls go out as they arrive.
func (w *writer) Pieces() bool { return true }

// Answer appends the body of a whole answer.
func (w *writer) Answer(dst []byte, a *dialect.Answer) []byte {
	dst = appendStart(dst, a)
	first := len(dst)
	next := func() {
		if len(dst) > first {
			dst = append(dst, ',')
		}
	}
	thoughts, said, citations := 0, 0, []byte(nil)
	upTo := func(thought, before int) {
		for ; thoughts < min(thought, len(a.Thoughts)); thoughts++ {
			if t := &a.Thoughts[thoughts]; t.Text != "" || t.Opaque != "" {
				next()
				dst = appendThought(dst, t)
			}
		}
		if before <= said || before > len(a.Content) {
			return
		}
		next()
		dst = appendText(dst, a.Content[said:before])
		if said = before; citations != nil {
			dst = append(append(append(dst, `,"citations":[`...), citations...), ']')
			citations = nil
		}
		dst = append(dst, '}')
	}
	for i := range a.Found {
		f := &a.Found[i]
		if f.Kind == providers.FoundCitation {
			if citations != nil {
				citations = append(citations, ',')
			}
			citations = appendFound(citations, f)
			continue
		}
		if upTo(f.Thoughts, f.Before); f.Kind != providers.FoundText {
			next()
			dst = appendFound(dst, f)
		}
	}
	plain, _ := a.Said()
	upTo(len(a.Thoughts), len(plain))
	upTo(len(a.Thoughts), len(a.Content))
	for i := range a.ToolCalls {
		c := &a.ToolCalls[i]
		if c.Opaque != "" {
			next()
			dst = appendThought(dst, &providers.Thought{Opaque: dialect.OfCall(c)})
		}
		next()
		dst = appendCall(dst, c.ID, c.Name)
		dst = append(appendInput(dst, c.Arguments), '}')
	}
	dst = append(appendReason(append(dst, `],`...), a), `,"usage":`...)
	dst = appendUsage(dst, a)
	if u := &a.Usage; u.CacheWriteTokens+u.CacheWriteHourTokens > 0 {
		dst = strconv.AppendInt(append(dst, `,"cache_creation":{"ephemeral_1h_input_tokens":`...), u.CacheWriteHourTokens, 10)
		dst = strconv.AppendInt(append(dst, `,"ephemeral_5m_input_tokens":`...), u.CacheWriteTokens, 10)
		dst = append(dst, '}')
	}
	return append(dst, `}}`...)
}

// Delta appends the events of one piece.
func (w *writer) Delta(dst []byte, a *dialect.Answer, d providers.Delta) []byte {
	dst = w.begin(dst, a)
	if d.Thinking != "" {
		if w.open != thinking {
			dst = append(w.start(dst, thinking), `{"type":"thinking","thinking":"","signature":""}}`...)
			dst = endEvent(dst)
		}
		dst = w.piecesOf(dst, `{"type":"thinking_delta","thinking":`, d.Thinking)
	}
	if d.Thought != nil {
		dst = w.thought(dst, d.Thought.Opaque)
	}
	if d.Found != nil {
		dst = w.found(dst, d.Found)
	}
	if d.Content != "" {
		k := text
		if d.Refusal {
			k = refusal
		}
		if w.open != k {
			dst = endEvent(append(appendText(w.start(dst, k), ""), `}}`...))
		}
		dst = w.piecesOf(dst, `{"type":"text_delta","text":`, d.Content)
	}
	for i := range d.Calls {
		dst = w.callPiece(dst, &d.Calls[i])
	}
	return dst
}

// Heartbeat appends a ping.
func (w *writer) Heartbeat(dst []byte, _ *dialect.Answer) []byte {
	return endEvent(append(event(dst, "ping"), '}'))
}

// Finish appends the end of the last block, why the model stopped, and the usage.
func (w *writer) Finish(dst []byte, a *dialect.Answer) []byte {
	dst = w.begin(dst, a)
	if w.blocks == 0 {
		// The answer was not said in pieces.
		for i := range a.Thoughts {
			dst = w.Delta(dst, a, providers.Delta{Thinking: a.Thoughts[i].Text, Thought: &a.Thoughts[i]})
		}
		text, refused := a.Said()
		dst = w.Delta(dst, a, providers.Delta{Content: text})
		dst = w.Delta(dst, a, providers.Delta{Content: refused, Refusal: true})
	}
	if w.calls == 0 {
		for i := range a.ToolCalls {
			c := &a.ToolCalls[i]
			dst = w.callPiece(dst, &providers.CallPiece{Index: i, ID: c.ID, Name: c.Name, Arguments: c.Arguments, Opaque: c.Opaque})
		}
	}
	dst = append(event(w.stop(dst), "message_delta"), `,"delta":{`...)
	dst = append(appendReason(dst, a), `},"usage":`...)
	dst = endEvent(append(appendUsage(dst, a), `}}`...))
	return endEvent(append(event(dst, "message_stop"), '}'))
}

// Fail appends an error, which Anthropic's libraries raise.
func (w *writer) Fail(dst []byte, a *dialect.Answer, e *wire.Error) []byte {
	failure := *e
	failure.TraceID = a.TraceID
	return endEvent(appendError(append(dst, "event: error\ndata: "...), &failure))
}

// begin appends the beginning of a stream. Its usage is not known yet.
func (w *writer) begin(dst []byte, a *dialect.Answer) []byte {
	if w.begun {
		return dst
	}
	w.begun = true
	dst = appendStart(append(event(dst, "message_start"), `,"message":`...), a)
	return endEvent(append(dst, `],"stop_reason":null,"stop_sequence":null,"stop_details":null,"usage":{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}}}`...))
}

// thought ends a thought. One of which nothing was said is a block of its own.
func (w *writer) thought(dst []byte, opaque string) []byte {
	if w.open == thinking {
		if opaque != "" {
			dst = w.piecesOf(dst, `{"type":"signature_delta","signature":`, opaque)
		}
		return w.stop(dst)
	}
	if opaque == "" {
		return dst
	}
	dst = appendThought(w.start(dst, thinking), &providers.Thought{Opaque: opaque})
	return w.stop(endEvent(append(dst, '}')))
}

// callPiece says a piece of a call.
func (w *writer) callPiece(dst []byte, p *providers.CallPiece) []byte {
	if w.open != toolUse || p.Index != w.piece {
		if p.Opaque != "" {
			dst = w.thought(w.stop(dst), dialect.OfCall(&providers.ToolCall{ID: p.ID, Opaque: p.Opaque}))
		}
		dst = appendCall(w.start(dst, toolUse), p.ID, p.Name)
		dst = endEvent(append(dst, `{}}}`...))
		w.piece, w.id = p.Index, strings.Clone(p.ID)
		w.calls++
	} else if p.Opaque != "" {
		// A block of its own, once the call has ended.
		w.late = providers.ToolCall{ID: w.id, Opaque: strings.Clone(p.Opaque)}
	}
	if p.Arguments == "" {
		return dst
	}
	return w.piecesOf(dst, `{"type":"input_json_delta","partial_json":`, p.Arguments)
}

// start ends the open block, and begins the event that starts another one.
func (w *writer) start(dst []byte, k kind) []byte {
	dst = w.stop(dst)
	w.open = k
	w.blocks++
	return append(w.eventOf(dst, "content_block_start"), `,"content_block":`...)
}

// stop ends the open block, if there is one.
func (w *writer) stop(dst []byte) []byte {
	if w.open == nothing {
		return dst
	}
	w.open = nothing
	dst = endEvent(append(w.eventOf(dst, "content_block_stop"), '}'))
	if late := w.late; late.Opaque != "" {
		w.late = providers.ToolCall{}
		return w.thought(dst, dialect.OfCall(&late))
	}
	return dst
}

// piecesOf says a piece of the open block. member is the delta up to its text.
func (w *writer) piecesOf(dst []byte, member, text string) []byte {
	dst = append(append(w.eventOf(dst, "content_block_delta"), `,"delta":`...), member...)
	return endEvent(append(jsontext.AppendString(dst, text), `}}`...))
}

// event begins an event.
func event(dst []byte, name string) []byte {
	dst = append(dst, "event: "...)
	dst = append(dst, name...)
	dst = append(dst, "\ndata: {\"type\":\""...)
	dst = append(dst, name...)
	return append(dst, '"')
}

// eventOf begins an event about the open block.
func (w *writer) eventOf(dst []byte, name string) []byte {
	return strconv.AppendInt(append(event(dst, name), `,"index":`...), int64(w.blocks-1), 10)
}

func endEvent(dst []byte) []byte { return append(dst, "\n\n"...) }

// appendStart appends a message up to its blocks.
func appendStart(dst []byte, a *dialect.Answer) []byte {
	dst = append(dst, `{"id":"msg_`...)
	dst = dialect.AppendMember(append(a.AppendID(dst), `","type":"message","role":"assistant"`...), "model", a.Key)
	return append(dst, `,"content":[`...)
}

// appendThought appends the block of a thought.
func appendThought(dst []byte, t *providers.Thought) []byte {
	if t.Text == "" {
		return append(dialect.AppendMember(append(dst, `{"type":"redacted_thinking"`...), "data", t.Opaque), '}')
	}
	dst = dialect.AppendMember(append(dst, `{"type":"thinking"`...), "thinking", t.Text)
	return append(dialect.AppendMember(dst, "signature", t.Opaque), '}')
}

// appendText appends the block of a text up to its brace.
func appendText(dst []byte, text string) []byte {
	return dialect.AppendMember(append(dst, `{"type":"text"`...), "text", text)
}

// appendCall appends the block of a call up to its input.
func appendCall(dst []byte, id, name string) []byte {
	dst = dialect.AppendMember(append(dst, `{"type":"tool_use"`...), "id", id)
	dst = dialect.AppendMember(dst, "name", name)
	return append(dst, `,"caller":{"type":"direct"},"input":`...)
}

// appendInput appends a call's arguments, which are JSON in the API. A model may have
// written something else: that is a string.
func appendInput(dst []byte, arguments string) []byte {
	start := len(dst)
	if dst = append(dst, arguments...); json.Valid(dst[start:]) {
		return dst
	}
	if dst = dst[:start]; strings.TrimSpace(arguments) == "" {
		return append(dst, "{}"...)
	}
	return jsontext.AppendString(dst, arguments)
}

// appendReason appends why the model stopped, as members. Which of the texts of
// stop_sequences ended an answer is not known.
func appendReason(dst []byte, a *dialect.Answer) []byte {
	reason := "end_turn"
	switch {
	case a.Refusal || a.FinishReason == providers.FinishContentFilter:
		dst = append(dst, `"stop_reason":"refusal","stop_sequence":null,"stop_details":{"type":"refusal"`...)
		for _, m := range [...][2]string{{"category", a.Category}, {"explanation", a.Explanation}} {
			if m[1] == "" {
				dst = append(append(append(dst, `,"`...), m[0]...), `":null`...)
			} else {
				dst = dialect.AppendMember(dst, m[0], m[1])
			}
		}
		return append(dst, '}')
	case a.Paused:
		reason = "pause_turn"
	case a.FinishReason == providers.FinishLength:
		reason = "max_tokens"
	case len(a.ToolCalls) > 0:
		reason = "tool_use"
	}
	dst = append(append(dst, `"stop_reason":"`...), reason...)
	return append(dst, `","stop_sequence":null,"stop_details":null`...)
}

// appendUsage appends the counts of tokens, without the brace at the end. The API counts
// the input apart that was in the provider's cache, or that went into it.
func appendUsage(dst []byte, a *dialect.Answer) []byte {
	u := &a.Usage
	written := u.CacheWriteTokens + u.CacheWriteHourTokens
	dst = strconv.AppendInt(append(dst, `{"input_tokens":`...), max(u.PromptTokens-u.CachedTokens-written, 0), 10)
	dst = strconv.AppendInt(append(dst, `,"cache_creation_input_tokens":`...), written, 10)
	dst = strconv.AppendInt(append(dst, `,"cache_read_input_tokens":`...), u.CachedTokens, 10)
	dst = strconv.AppendInt(append(dst, `,"output_tokens":`...), u.CompletionTokens, 10)
	dst = strconv.AppendInt(append(dst, `,"output_tokens_details":{"thinking_tokens":`...), u.ReasoningTokens, 10)
	dst = append(dst, '}')
	if u.WebSearches == 0 {
		return dst
	}
	dst = strconv.AppendInt(append(dst, `,"server_tool_use":{"web_fetch_requests":0,"web_search_requests":`...), u.WebSearches, 10)
	return append(dst, '}')
}
