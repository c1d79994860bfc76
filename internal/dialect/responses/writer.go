package responses

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/openai"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// writer writes one answer. An answer is a list of items: thoughts, messages, calls.
// In a stream one item at a time is open, between the event that adds it and the one
// that says it whole. The last event repeats all of them, so the writer keeps them.
type writer struct {
	callables []callable // tools that the caller knows otherwise than the model
	searches  bool       // there may be searches, whose citations count characters

	rest  []byte // the end of each response object: the repeated members of the request
	items int    // how many have begun

	// Of a stream:
	sequence int    // number of the next event
	open     kind   // of the open item
	place    []byte // members that say which item an event is about
	room     [128]byte
	spoke    bool // there is a message or a call
	calls    int  // how many have begun
	piece    int  // which of the provider's calls is open
	call     providers.ToolCall
	text     []byte // of the open item, as the inside of a JSON string
	logprobs []byte // of the open message, as the inside of a list
	output   []byte // the items that have ended, as the inside of a list
	search   *providers.Found
	chars    int    // Unicode code points of the text so far, if searches
	from     int    // of them, before the open message
	cited    []byte // the citations of the open message, as the inside of a list

	citations int // how many that are
}

// kind is a kind of item.
type kind uint8

const (
	nothing kind = iota
	reasoning
	message
	refusal // a message that refuses
	call
	customCall // of a tool that takes a text
	compacted  // a sealed summary
	search
)

// The states of a response, and of its items.
const (
	inProgress = "in_progress"
	completed  = "completed"
	incomplete = "incomplete"
	failed     = "failed"
)

// statusOf returns the state of an answer that has ended.
func statusOf(a *dialect.Answer) string {
	if a.FinishReason == providers.FinishLength || a.FinishReason == providers.FinishContentFilter {
		return incomplete
	}
	return completed
}

// Pieces reports that thoughts and calls are wanted as they arrive.
func (w *writer) Pieces() bool { return true }

// Answer appends the body of a whole answer.
func (w *writer) Answer(dst []byte, a *dialect.Answer) []byte {
	status := statusOf(a)
	dst = appendStart(dst, a, status, nil)
	first := len(dst)
	next := func(k kind) {
		if len(dst) > first {
			dst = append(dst, ',')
		}
		dst = appendItemStart(dst, a, k, w.items)
		w.items++
	}
	thoughts, said, from := 0, 0, 0
	content, refused := a.Said()
	var cited []byte
	upTo := func(thought int) {
		for ; thoughts < min(thought, len(a.Thoughts)); thoughts++ {
			t := &a.Thoughts[thoughts]
			next(reasoning)
			dst = appendReasoning(dst, jsonText{text: t.Text}, t.Opaque)
		}
	}
	for i := range a.Found {
		switch f := &a.Found[i]; f.Kind {
		case providers.FoundCitation:
			cited = appendCitation(separate(cited), f, from)
		case providers.FoundCall:
			upTo(f.Thoughts)
			if f.Before > said && f.Before <= len(content) {
				text := content[said:f.Before]
				next(message)
				dst = appendMessage(dst, message, completed, jsonText{text: text}, nil, cited)
				said, from, cited = f.Before, from+utf8.RuneCountInString(text), nil
			}
			if len(dst) > first {
				dst = append(dst, ',')
			}
			dst = appendSearch(dst, f, completed, resultsOf(a.Found[i:], f.ID))
			w.items++
		}
	}
	upTo(len(a.Thoughts))
	if said < len(content) || said == 0 && len(a.ToolCalls) == 0 && !a.Refusal {
		of := status
		if refused != "" {
			of = completed
		}
		next(message)
		dst = appendMessage(dst, message, of, jsonText{text: content[said:]}, appendList(nil, a.Logprobs), cited)
	}
	if refused != "" || len(a.ToolCalls) == 0 && a.Refusal {
		next(refusal)
		dst = appendMessage(dst, refusal, status, jsonText{text: refused}, nil, nil)
	}
	for i := range a.ToolCalls {
		c := &a.ToolCalls[i]
		if c.Opaque != "" {
			next(reasoning)
			dst = appendReasoning(dst, jsonText{}, dialect.OfCall(c))
		}
		of := w.callableOf(c.Name)
		if of.custom {
			next(customCall)
			dst = appendCall(dst, completed, input, jsonText{text: inputOf(c.Arguments)}, c.ID, of)
			continue
		}
		next(call)
		dst = appendCall(dst, completed, "arguments", jsonText{text: arguments(c.Arguments)}, c.ID, of)
	}
	return w.appendEnd(dst, a)
}

// Held returns how many bytes an answer takes for what it repeats of the request, and a
// stream for saying its items again: what the writer keeps of them, and what Finish will
// append.
func (w *writer) Held() int {
	return len(w.rest) + 6*len(w.text) + 6*len(w.logprobs) + 3*len(w.output) + 6*len(w.cited)
}

// Delta appends the events of one piece.
func (w *writer) Delta(dst []byte, a *dialect.Answer, d providers.Delta) []byte {
	dst = w.begin(dst, a)
	if d.Thinking != "" {
		dst = w.think(dst, a, d.Thinking)
	}
	if d.Found != nil && d.Found.Kind == providers.FoundResults {
		dst = w.found(dst, a, d.Found) // it ends the search that is open
	}
	if d.Thought != nil {
		dst = w.thought(dst, a, d.Thought.Opaque)
	}
	if d.Found != nil && d.Found.Kind != providers.FoundResults {
		dst = w.found(dst, a, d.Found)
	}
	if d.Content != "" || len(d.Logprobs) > 0 {
		dst = w.speak(dst, a, d.Content, d.Logprobs, d.Refusal)
	}
	for i := range d.Calls {
		dst = w.callPiece(dst, a, &d.Calls[i])
	}
	return dst
}

// Heartbeat appends a comment. No empty line follows it, because some readers take
// one for the end of an event without data.
func (w *writer) Heartbeat(dst []byte, _ *dialect.Answer) []byte {
	return append(dst, ": keep-alive\n"...)
}

// Finish appends the end of the last item, and the whole response.
func (w *writer) Finish(dst []byte, a *dialect.Answer) []byte {
	dst = w.begin(dst, a)
	if w.items == 0 && w.open == nothing {
		// The answer was not said in pieces.
		for i := range a.Thoughts {
			dst = w.Delta(dst, a, providers.Delta{Thinking: a.Thoughts[i].Text, Thought: &a.Thoughts[i]})
		}
		text, refused := a.Said()
		dst = w.Delta(dst, a, providers.Delta{Content: text, Logprobs: a.Logprobs})
		dst = w.Delta(dst, a, providers.Delta{Content: refused, Refusal: true})
	} else if a.Explanation != "" {
		dst = w.Delta(dst, a, providers.Delta{Content: a.Explanation, Refusal: true})
	}
	if w.calls == 0 {
		for i := range a.ToolCalls {
			c := &a.ToolCalls[i]
			dst = w.callPiece(dst, a, &providers.CallPiece{Index: i, ID: c.ID, Name: c.Name, Arguments: c.Arguments, Opaque: c.Opaque})
		}
	}
	if !w.spoke {
		dst = w.openMessage(dst, a, a.Refusal)
	}
	status := statusOf(a)
	if w.open == message && a.Refusal && a.Refused == 0 {
		// Its pieces went out as a text, before this was known.
		dst = w.endMessage(dst, a, refusal, status)
	}
	dst = w.end(dst, a, status)
	name := "response.completed"
	if status == incomplete {
		name = "response.incomplete"
	}
	dst = append(w.event(dst, name), `,"response":`...)
	dst = append(appendStart(dst, a, status, nil), w.output...)
	return endEvent(w.appendEnd(dst, a))
}

// Fail appends the events of a stream that broke off: OpenAI's libraries raise an
// error at the first, others read the second. Neither has a part of the answer, so
// that no reader takes it for whole.
func (w *writer) Fail(dst []byte, a *dialect.Answer, e *wire.Error) []byte {
	dst = w.event(dst, "error")
	dst = dialect.AppendMember(dst, "code", e.Name)
	dst = dialect.AppendMember(dst, "message", e.Message)
	dst = endEvent(e.AppendObject(append(dst, `,"param":null,"error":`...)))

	dst = append(w.event(dst, "response.failed"), `,"response":`...)
	dst = appendStart(dst, a, failed, e)
	return endEvent(w.appendClosed(dst))
}

// Refuse appends a stream that fails at once, for the errors that Codex acts on only there:
// it shortens the conversation, or waits for as long as the message says.
func (w *writer) Refuse(dst []byte, a *dialect.Answer, e *wire.Error) []byte {
	shown := *e
	switch e.Name {
	case wire.ContextLengthExceeded.Name:
	case wire.UpstreamRateLimited.Name:
		shown.Name = "rate_limit_exceeded"
		shown.Message += fmt.Sprintf(" Please try again in %ds.", e.RetrySeconds())
	default:
		return dst
	}
	return w.Fail(w.begin(dst, a), a, &shown)
}

// begin appends the beginning of a stream.
func (w *writer) begin(dst []byte, a *dialect.Answer) []byte {
	if w.sequence > 0 {
		return dst
	}
	for _, name := range [...]string{"response.created", "response.in_progress"} {
		dst = append(w.event(dst, name), `,"response":`...)
		dst = endEvent(w.appendClosed(appendStart(dst, a, inProgress, nil)))
	}
	return dst
}

// think says a piece of a thought.
func (w *writer) think(dst []byte, a *dialect.Answer, text string) []byte {
	if w.open != reasoning {
		dst = w.add(dst, a, reasoning)
		dst = append(dst, `,"summary":[]}`...)
		dst = endEvent(dst)
		dst = append(w.eventOf(dst, "response.reasoning_summary_part.added"), `,"part":{"type":"summary_text","text":""}`...)
		dst = endEvent(dst)
	}
	return endEvent(w.say(w.eventOf(dst, "response.reasoning_summary_text.delta"), text))
}

// thought ends a thought. One of which nothing was said is an item of its own.
func (w *writer) thought(dst []byte, a *dialect.Answer, opaque string) []byte {
	if w.open == reasoning {
		return w.endReasoning(dst, a, opaque)
	}
	if opaque == "" {
		return dst
	}
	dst = w.add(dst, a, reasoning)
	dst = endEvent(append(dst, `,"summary":[]}`...))
	return w.endReasoning(dst, a, opaque)
}

// speak says a piece of the text.
func (w *writer) speak(dst []byte, a *dialect.Answer, text string, logprobs json.RawMessage, refuses bool) []byte {
	dst = w.openMessage(dst, a, refuses || a.Refusal && a.Refused == 0 && w.open != message)
	if w.searches {
		w.chars += utf8.RuneCountInString(text)
	}
	if w.open == refusal {
		return endEvent(w.say(w.eventOf(dst, "response.refusal.delta"), text))
	}
	dst = w.say(w.eventOf(dst, "response.output_text.delta"), text)
	dst = append(dst, `,"logprobs":[`...)
	start := len(dst)
	if dst = appendList(dst, logprobs); len(dst) > start {
		w.logprobs = append(separate(w.logprobs), dst[start:]...)
	}
	return endEvent(append(dst, ']'))
}

// openMessage begins a message unless such a one is open.
func (w *writer) openMessage(dst []byte, a *dialect.Answer, refuses bool) []byte {
	k := message
	if refuses {
		k = refusal
	}
	if w.open == k {
		return dst
	}
	dst = w.add(dst, a, k)
	w.from, w.citations = w.chars, 0
	dst = append(dst, `,"status":"in_progress","content":[],"role":"assistant"}`...)
	dst = endEvent(dst)
	dst = append(w.eventOf(dst, "response.content_part.added"), `,"part":`...)
	return endEvent(appendPart(dst, k, jsonText{}, nil, nil))
}

// callPiece says a piece of a call.
func (w *writer) callPiece(dst []byte, a *dialect.Answer, p *providers.CallPiece) []byte {
	if w.open != call && w.open != customCall || p.Index != w.piece {
		c := providers.ToolCall{ID: strings.Clone(p.ID), Name: strings.Clone(p.Name), Opaque: p.Opaque}
		if p.Opaque != "" {
			dst = w.thought(w.end(dst, a, completed), a, dialect.OfCall(&c))
			c.Opaque = ""
		}
		of, kind, member := w.callableOf(c.Name), call, "arguments"
		if of.custom {
			kind, member = customCall, input
		}
		dst = w.add(dst, a, kind)
		w.piece, w.call = p.Index, c
		w.calls++
		dst = endEvent(appendCall(dst, inProgress, member, jsonText{}, c.ID, of))
	} else if p.Opaque != "" {
		w.call.Opaque = strings.Clone(p.Opaque) // an item of its own, once the call has ended
	}
	if p.Arguments == "" {
		return dst
	}
	if w.open == customCall {
		w.keepText(p.Arguments) // the text in it is known at its end
		return dst
	}
	return endEvent(w.say(w.eventOf(dst, "response.function_call_arguments.delta"), p.Arguments))
}

// firstText is the first capacity of a text, in bytes.
const firstText = 1 << 10

// say appends the member delta, and keeps its text.
func (w *writer) say(dst []byte, text string) []byte {
	dst = append(dst, `,"delta":"`...)
	start := len(w.text)
	w.keepText(text)
	return append(append(dst, w.text[start:]...), '"')
}

// keepText keeps a piece of the open item's text.
func (w *writer) keepText(text string) {
	if w.text == nil {
		w.text = make([]byte, 0, firstText)
	}
	w.text = jsontext.AppendEscaped(w.text, text)
}

// callableOf returns the tool as the caller knows it that the model knows by a name.
func (w *writer) callableOf(function string) callable {
	for _, c := range w.callables {
		if c.function == function {
			return c
		}
	}
	return callable{name: function}
}

// add ends the open item, and begins the event that adds another one, up to the
// members of its kind.
func (w *writer) add(dst []byte, a *dialect.Answer, k kind) []byte {
	dst = w.end(dst, a, completed)
	w.open, w.spoke = k, w.spoke || k != reasoning
	w.place = append(w.room[:0], `,"item_id":"`...)
	w.place = appendItemID(w.place, a, k, w.items)
	w.place = append(w.place, `","output_index":`...)
	w.place = strconv.AppendInt(w.place, int64(w.items), 10)
	switch k {
	case reasoning:
		w.place = append(w.place, `,"summary_index":0`...)
	case message, refusal:
		w.place = append(w.place, `,"content_index":0`...)
	}
	dst = append(w.event(dst, "response.output_item.added"), `,"output_index":`...)
	dst = strconv.AppendInt(dst, int64(w.items), 10)
	dst = append(dst, `,"item":`...)
	return appendItemStart(dst, a, k, w.items)
}

// end ends the open item, if there is one.
func (w *writer) end(dst []byte, a *dialect.Answer, status string) []byte {
	switch w.open {
	case reasoning:
		return w.endReasoning(dst, a, "")
	case message, refusal:
		return w.endMessage(dst, a, w.open, status)
	case search:
		return w.endSearch(dst, nil)
	case call:
		return w.endCall(dst, a, "response.function_call_arguments", "arguments")
	case customCall:
		var given string
		if err := json.Unmarshal(append(append([]byte{'"'}, w.text...), '"'), &given); err != nil {
			panic("a text that is kept is not JSON: " + err.Error())
		}
		w.text = w.text[:0]
		dst = endEvent(w.say(w.eventOf(dst, "response.custom_tool_call_input.delta"), inputOf(given)))
		return w.endCall(dst, a, "response.custom_tool_call_input", input)
	}
	return dst
}

func (w *writer) endReasoning(dst []byte, a *dialect.Answer, opaque string) []byte {
	if len(w.text) > 0 {
		dst = w.appendSaid(w.eventOf(dst, "response.reasoning_summary_text.done"), "text")
		dst = endEvent(dst)
		dst = append(w.eventOf(dst, "response.reasoning_summary_part.done"), `,"part":{"type":"summary_text"`...)
		dst = endEvent(append(w.appendSaid(dst, "text"), '}'))
	}
	start := w.keep(a)
	w.output = appendReasoning(w.output, jsonText{escaped: w.text}, opaque)
	return w.endItem(dst, start)
}

func (w *writer) endMessage(dst []byte, a *dialect.Answer, k kind, status string) []byte {
	switch {
	case w.open == refusal:
		dst = endEvent(w.appendSaid(w.eventOf(dst, "response.refusal.done"), "refusal"))
	case k == message:
		dst = w.appendSaid(w.eventOf(dst, "response.output_text.done"), "text")
		dst = append(dst, `,"logprobs":[`...)
		dst = endEvent(append(append(dst, w.logprobs...), ']'))
	}
	dst = append(w.eventOf(dst, "response.content_part.done"), `,"part":`...)
	dst = endEvent(appendPart(dst, k, jsonText{escaped: w.text}, w.logprobs, w.cited))
	start := w.keep(a)
	w.output = appendMessage(w.output, k, status, jsonText{escaped: w.text}, w.logprobs, w.cited)
	w.logprobs, w.cited = w.logprobs[:0], nil
	return w.endItem(dst, start)
}

func (w *writer) endCall(dst []byte, a *dialect.Answer, event, member string) []byte {
	of := w.callableOf(w.call.Name)
	if len(w.text) == 0 && !of.custom {
		dst = endEvent(w.say(w.eventOf(dst, event+".delta"), arguments("")))
	}
	dst = w.appendSaid(w.eventOf(dst, event+".done"), member)
	if !of.custom {
		dst = dialect.AppendMember(dst, "name", of.name)
	}
	dst = endEvent(dst)
	start := w.keep(a)
	w.output = appendCall(w.output, completed, member, jsonText{escaped: w.text}, w.call.ID, of)
	dst = w.endItem(dst, start)
	if w.call.Opaque != "" {
		dst = w.thought(dst, a, dialect.OfCall(&w.call))
	}
	return dst
}

// keep begins an item of the output, and returns its offset.
func (w *writer) keep(a *dialect.Answer) (start int) {
	const around = 256 // the text, as most answers have one
	w.output = slices.Grow(separate(w.output), len(w.text)+len(w.logprobs)+around)
	start = len(w.output)
	w.output = appendItemStart(w.output, a, w.open, w.items)
	return start
}

// endItem says the item whose output begins at start whole.
func (w *writer) endItem(dst []byte, start int) []byte {
	dst = append(w.event(dst, "response.output_item.done"), `,"output_index":`...)
	dst = strconv.AppendInt(dst, int64(w.items), 10)
	dst = append(dst, `,"item":`...)
	dst = endEvent(append(dst, w.output[start:]...))
	w.open, w.text = nothing, w.text[:0]
	w.items++
	return dst
}

// event begins an event.
func (w *writer) event(dst []byte, name string) []byte {
	dst = append(dst, "event: "...)
	dst = append(dst, name...)
	dst = append(dst, "\ndata: {\"type\":\""...)
	dst = append(dst, name...)
	dst = append(dst, `","sequence_number":`...)
	dst = strconv.AppendInt(dst, int64(w.sequence), 10)
	w.sequence++
	return dst
}

// eventOf begins an event about the open item.
func (w *writer) eventOf(dst []byte, name string) []byte {
	return append(w.event(dst, name), w.place...)
}

func endEvent(dst []byte) []byte { return append(dst, "}\n\n"...) }

// appendSaid appends all that the open item said, as a member.
func (w *writer) appendSaid(dst []byte, member string) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, member...)
	dst = append(dst, `":"`...)
	return append(append(dst, w.text...), '"')
}

// appendStart begins a response object, up to the first item of its output.
func appendStart(dst []byte, a *dialect.Answer, status string, failure *wire.Error) []byte {
	dst = append(dst, `{"id":"resp_`...)
	dst = a.AppendID(dst)
	dst = append(dst, `","object":"response","created_at":`...)
	dst = strconv.AppendInt(dst, a.Time.Unix(), 10)
	dst = dialect.AppendMember(dst, "status", status)
	dst = append(dst, `,"background":false`...)
	if failure != nil {
		code := failure.Name
		if failure.Code == wire.UpstreamInterrupted {
			code = "server_error" // the API has a list of codes
		}
		dst = append(append(dst, `,"error":{"code":"`...), code...)
		dst = append(dst, '"')
		dst = append(dialect.AppendMember(dst, "message", failure.Message), '}')
	} else {
		dst = append(dst, `,"error":null`...)
	}
	switch {
	case status != incomplete:
		dst = append(dst, `,"incomplete_details":null`...)
	case a.FinishReason == providers.FinishLength:
		dst = append(dst, `,"incomplete_details":{"reason":"max_output_tokens"}`...)
	default:
		dst = append(dst, `,"incomplete_details":{"reason":"content_filter"}`...)
	}
	dst = dialect.AppendMember(dst, "model", a.Key)
	return append(dst, `,"output":[`...)
}

// appendEnd ends the response object of an answer that has ended.
func (w *writer) appendEnd(dst []byte, a *dialect.Answer) []byte {
	u := &a.Usage
	dst = append(dst, `],"usage":{"input_tokens":`...)
	dst = strconv.AppendInt(dst, u.PromptTokens, 10)
	dst = append(dst, `,"input_tokens_details":{"cached_tokens":`...)
	dst = strconv.AppendInt(dst, u.CachedTokens, 10)
	dst = append(dst, `,"cache_write_tokens":`...)
	dst = strconv.AppendInt(dst, u.CacheWriteTokens+u.CacheWriteHourTokens, 10)
	dst = append(dst, `},"output_tokens":`...)
	dst = strconv.AppendInt(dst, u.CompletionTokens, 10)
	dst = append(dst, `,"output_tokens_details":{"reasoning_tokens":`...)
	dst = strconv.AppendInt(dst, u.ReasoningTokens, 10)
	dst = append(dst, `},"total_tokens":`...)
	dst = strconv.AppendInt(dst, u.TotalTokens, 10)
	return append(append(dst, '}'), w.rest...)
}

// appendClosed ends a response object without an answer.
func (w *writer) appendClosed(dst []byte) []byte {
	return append(append(dst, ']'), w.rest...)
}

// jsonText is a text: plain, or as the inside of a JSON string.
type jsonText struct {
	text    string
	escaped []byte
}

func (s jsonText) empty() bool { return s.text == "" && len(s.escaped) == 0 }

func (s jsonText) append(dst []byte) []byte {
	dst = append(dst, '"')
	dst = append(dst, s.escaped...)
	return append(jsontext.AppendEscaped(dst, s.text), '"')
}

// appendItemStart begins an item, up to the members of its kind.
func appendItemStart(dst []byte, a *dialect.Answer, k kind, index int) []byte {
	dst = append(dst, `{"id":"`...)
	dst = appendItemID(dst, a, k, index)
	switch k {
	case reasoning:
		return append(dst, `","type":"reasoning"`...)
	case call:
		return append(dst, `","type":"function_call"`...)
	case customCall:
		return append(dst, `","type":"custom_tool_call"`...)
	case compacted:
		return append(dst, `","type":"compaction"`...)
	}
	return append(dst, `","type":"message"`...)
}

// appendItemID appends an item's id, such as msg_018f…_0.
func appendItemID(dst []byte, a *dialect.Answer, k kind, index int) []byte {
	switch k {
	case reasoning:
		dst = append(dst, "rs_"...)
	case call:
		dst = append(dst, "fc_"...)
	case customCall:
		dst = append(dst, "ctc_"...)
	case compacted:
		dst = append(dst, "cmp_"...)
	default:
		dst = append(dst, "msg_"...)
	}
	dst = append(a.AppendID(dst), '_')
	return strconv.AppendInt(dst, int64(index), 10)
}

func appendReasoning(dst []byte, text jsonText, opaque string) []byte {
	dst = append(dst, `,"summary":[`...)
	if !text.empty() {
		dst = append(dst, `{"type":"summary_text","text":`...)
		dst = append(text.append(dst), '}')
	}
	dst = append(dst, ']')
	if opaque != "" {
		dst = dialect.AppendMember(dst, "encrypted_content", opaque)
	}
	return append(dst, '}')
}

func appendMessage(dst []byte, k kind, status string, text jsonText, logprobs, cited []byte) []byte {
	dst = dialect.AppendMember(dst, "status", status)
	dst = appendPart(append(dst, `,"content":[`...), k, text, logprobs, cited)
	return append(dst, `],"role":"assistant"}`...)
}

// appendPart appends the one part of a message.
func appendPart(dst []byte, k kind, text jsonText, logprobs, cited []byte) []byte {
	if k == refusal {
		dst = append(dst, `{"type":"refusal","refusal":`...)
		return append(text.append(dst), '}')
	}
	dst = append(append(dst, `{"type":"output_text","annotations":[`...), cited...)
	dst = append(dst, `],"logprobs":[`...)
	dst = append(append(dst, logprobs...), `],"text":`...)
	return append(text.append(dst), '}')
}

// appendCall appends the end of a call of the tool of. member has what it is called with.
// The API gives no state of a custom tool's call.
func appendCall(dst []byte, status, member string, with jsonText, id string, of callable) []byte {
	if !of.custom {
		dst = dialect.AppendMember(dst, "status", status)
	}
	dst = append(append(append(dst, `,"`...), member...), `":`...)
	dst = dialect.AppendMember(with.append(dst), "call_id", id)
	if dst = dialect.AppendMember(dst, "name", of.name); of.namespace != "" {
		dst = dialect.AppendMember(dst, "namespace", of.namespace)
	}
	return append(dst, '}')
}

// arguments returns a call's arguments as JSON: libraries parse them.
func arguments(text string) string {
	if text == "" {
		return "{}"
	}
	return text
}

// separate appends a comma unless list is empty.
func separate(list []byte) []byte {
	if len(list) > 0 {
		return append(list, ',')
	}
	return list
}

// appendList appends a list without its brackets.
func appendList(dst []byte, list json.RawMessage) []byte {
	if len(list) < len("[]") {
		return dst
	}
	return openai.AppendLogprobs(dst, list[1:len(list)-1])
}
