package anthropic

import (
	"io"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// stream is an answer as it arrives: server-sent events, or one message.
type stream struct {
	upstream.EventAnswer

	model   string
	stop    providers.FinishReason // empty before it is known
	stopErr *providers.Error       // why the stop_reason is none of an answer
	usage   usage
	thought upstream.BlockThought
	calls   []providers.ToolCall // of a complete answer
	leftOut []string
	started bool // a message began
	said    bool // text or a tool call was seen
	search  searching

	category, explanation string // for a refusal, as the API words it
}

func newStream(k upstream.Call, body io.ReadCloser, leftOut []string) *stream {
	return &stream{EventAnswer: upstream.NewEventAnswer(k, body, "a message"), leftOut: leftOut}
}

// Next returns the next delta.
func (s *stream) Next() (providers.Delta, error) { return s.Lookahead.Next(s) }

// Result is the answer as far as it is known.
func (s *stream) Result() providers.Result {
	return providers.Result{
		Model: s.model, FinishReason: s.stop, Usage: s.usage.result(), ToolCalls: s.calls, LeftOut: s.leftOut,
		Thoughts: s.Lookahead.Thoughts(), Found: s.Lookahead.Found(), Paused: s.search.paused,
		Category: s.category, Explanation: s.explanation,
	}
}

// Step reads one step of the answer.
func (s *stream) Step() (providers.Delta, error) {
	event, err := s.Event()
	if err != nil {
		return providers.Delta{}, s.cut(err)
	}
	v, err := s.Parse(event)
	switch {
	case err != nil:
		return providers.Delta{}, s.cut(err)
	case v == nil:
		return providers.Delta{}, nil
	case string(event.Name) == "error" || isError(v):
		return providers.Delta{}, reported(s.Call, v)
	case event.Whole:
		return s.message(v)
	}
	return s.take(v)
}

// message reads a whole answer.
func (s *stream) message(v *fastjson.Value) (providers.Delta, error) {
	s.start(v)
	if content := v.Get("content"); content != nil && content.Type() != fastjson.TypeArray && content.Type() != fastjson.TypeNull {
		return providers.Delta{}, s.Invalid("the content is no list of blocks")
	}
	for i, b := range v.GetArray("content") {
		d := s.block(i, b)
		s.Lookahead.Calls.End(i)
		s.Lookahead.Say(d)
		s.thought.Break(&format, &s.Lookahead)
		s.endSearched()
	}
	s.stopped(v)
	if s.stop == "" && s.stopErr == nil {
		return providers.Delta{}, s.Invalid("neither a message that ended nor an error")
	}
	if err := s.fault(); err != nil {
		return providers.Delta{}, err
	}
	s.Lookahead.Last()
	return providers.Delta{}, nil
}

// take takes in one event. Types that are not known here say nothing that is
// needed: the API may add some at any time
// (https://docs.anthropic.com/en/api/versioning).
func (s *stream) take(v *fastjson.Value) (providers.Delta, error) {
	switch string(v.GetStringBytes("type")) {
	case "content_block_delta":
		return s.delta(v), nil
	case "message_start":
		if s.started {
			return providers.Delta{}, s.Invalid("a second message began before the end of the first one")
		}
		s.started = true
		if m := v.Get("message"); m != nil {
			s.start(m)
		}
	case "content_block_start":
		s.thought.Break(&format, &s.Lookahead) // one before it has no end of its own
		s.endSearched()
		return s.block(v.GetInt("index"), v.Get("content_block")), nil
	case "content_block_stop":
		index := v.GetInt("index")
		if s.thought.Open && s.thought.Index == index {
			return s.thought.End(&format, &s.Lookahead, s.Lookahead.Place()), nil
		}
		s.Lookahead.Calls.End(index)
		s.endSearched()
	case "message_delta":
		s.usage.read(v.Get("usage"))
		if d := v.Get("delta"); d != nil {
			s.stopped(d)
		}
	case "message_stop":
		if err := s.fault(); err != nil {
			return providers.Delta{}, err
		}
		s.thought.Break(&format, &s.Lookahead)
		return providers.Delta{}, io.EOF
	}
	return providers.Delta{}, nil
}

// start reads the head of a message.
func (s *stream) start(v *fastjson.Value) {
	if model := v.GetStringBytes("model"); len(model) > 0 {
		s.model = string(model)
	}
	s.usage.read(v.Get("usage"))
}

// block takes in a block of content, or the beginning of one. The input of a tool call
// is empty in a stream, and follows as pieces of JSON.
func (s *stream) block(index int, b *fastjson.Value) providers.Delta {
	if s.search.on {
		s.beginSearched(b)
	}
	switch string(b.GetStringBytes("type")) {
	case "text":
		return s.say(b.GetStringBytes("text"))
	case "tool_use":
		s.said = true
		s.Lookahead.Calls.Begin(index, b.GetStringBytes("id"), b.GetStringBytes("name"))
		if input := b.GetObject("input"); input != nil && input.Len() > 0 {
			s.Lookahead.Calls.Value(index, b.Get("input"))
		}
	case "thinking", "redacted_thinking":
		s.thought.Index = index
		return s.thought.Take(&format, b, &s.Body)
	}
	return providers.Delta{}
}

// delta takes in a piece of a content block: of text, of a tool call, or of a thought.
func (s *stream) delta(v *fastjson.Value) providers.Delta {
	d := v.Get("delta")
	switch string(d.GetStringBytes("type")) {
	case "text_delta":
		return s.say(d.GetStringBytes("text"))
	case "input_json_delta":
		// Others are for tools of the API's own.
		if piece := d.GetStringBytes("partial_json"); s.search.call != nil && len(s.search.input)+len(piece) <= upstream.MaxEvent {
			s.search.input = append(s.search.input, piece...)
		} else {
			s.Lookahead.Calls.Arguments(v.GetInt("index"), piece)
		}
	case "citations_delta":
		s.cite(d.Get("citation"))
	case "thinking_delta", "signature_delta":
		if s.thought.Open && s.thought.Index == v.GetInt("index") {
			return s.thought.Take(&format, d, &s.Body)
		}
	}
	return providers.Delta{}
}

func (s *stream) say(text []byte) providers.Delta {
	if len(text) == 0 {
		return providers.Delta{}
	}
	s.said = true
	s.search.counted(text)
	return providers.Delta{Content: s.Body.String(text)}
}

// stopped takes in why the model stopped.
func (s *stream) stopped(v *fastjson.Value) {
	if reason := v.GetStringBytes("stop_reason"); len(reason) > 0 {
		if s.search.paused = s.search.on && string(reason) == "pause_turn"; s.search.paused {
			s.stop = providers.FinishLength
		} else {
			s.stop, s.stopErr = finishReason(s.Call, reason)
		}
	}
	if details := v.Get("stop_details"); details != nil && s.stop == providers.FinishContentFilter {
		s.category, s.explanation = s.Text(details.Get("category")), s.Text(details.Get("explanation"))
	}
}

// fault judges a message at its end marker: nil if it is an answer.
func (s *stream) fault() error {
	if s.stopErr != nil {
		return s.stopErr
	}
	calls, err := s.Lookahead.Calls.Finish()
	if err != nil {
		return s.Invalid("not a whole answer: " + err.Error())
	}
	s.calls = calls
	switch {
	case s.stop == providers.FinishToolCalls && len(calls) == 0 && !s.said:
		return s.Invalid("an answer of tool calls without a tool call")
	case s.stop == providers.FinishContentFilter && !s.said:
		e := s.Refused("refusal")
		e.Message = strings.Trim(s.category+": "+s.explanation, ": ")
		return e
	case s.stop == "" && !s.said:
		return s.Invalid("the end marker without an answer")
	}
	return nil
}

// cut judges a body that ends, or breaks off, before the end marker.
func (s *stream) cut(err error) error { return s.Cut(err, !s.started && !s.said) }
