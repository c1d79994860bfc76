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
	thought thought
	calls   []providers.ToolCall // of a complete answer
	leftOut []string
	started bool   // a message began
	said    bool   // text or a tool call was seen
	reason  string // for a refusal, as the API words it
}

func newStream(k upstream.Call, body io.ReadCloser, leftOut []string) *stream {
	return &stream{EventAnswer: upstream.NewEventAnswer(k, body, "a message"), leftOut: leftOut}
}

// Next returns the next delta.
func (s *stream) Next() (providers.Delta, error) { return s.Lookahead.Next(s) }

// Result is what is known of the answer.
func (s *stream) Result() providers.Result {
	return providers.Result{
		Model: s.model, FinishReason: s.stop, Usage: s.usage.result(), ToolCalls: s.calls, LeftOut: s.leftOut,
		Thoughts: s.Lookahead.Thoughts(),
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
	var text []byte
	calls := 0
	for i, b := range v.GetArray("content") {
		switch string(b.GetStringBytes("type")) {
		case "text":
			text = upstream.AppendText(text, b.GetStringBytes("text"))
		case "tool_use":
			s.toolUse(i, b)
			s.Lookahead.Calls.End(i)
			calls++
		case "thinking", "redacted_thinking":
			if d := s.begin(i, b); d.Thinking != "" {
				s.Lookahead.Say(d)
			}
			if d := s.end(upstream.Place{Text: len(text), Calls: calls}); d.Thought != nil {
				s.Lookahead.Say(d)
			}
		}
	}
	s.said = s.said || len(text) > 0
	s.stopped(v)
	if s.stop == "" && s.stopErr == nil {
		return providers.Delta{}, s.Invalid("neither a message that ended nor an error")
	}
	if err := s.fault(); err != nil {
		return providers.Delta{}, err
	}
	s.Lookahead.Last()
	return providers.Delta{Content: string(text)}, nil
}

// take takes in one event. Types that are not known here say nothing that is
// needed: the API's versioning policy lets it add some at any time.
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
		b := v.Get("content_block")
		if s.thought.open { // it has no end of its own
			s.Lookahead.Say(s.end(s.Lookahead.Place()))
		}
		switch string(b.GetStringBytes("type")) {
		case "text":
			return s.say(b.GetStringBytes("text")), nil
		case "tool_use":
			s.toolUse(v.GetInt("index"), b)
		case "thinking", "redacted_thinking":
			return s.begin(v.GetInt("index"), b), nil
		}
	case "content_block_stop":
		index := v.GetInt("index")
		if s.thought.open && s.thought.index == index {
			return s.end(s.Lookahead.Place()), nil
		}
		s.Lookahead.Calls.End(index)
	case "message_delta":
		s.usage.read(v.Get("usage"))
		if d := v.Get("delta"); d != nil {
			s.stopped(d)
		}
	case "message_stop":
		if err := s.fault(); err != nil {
			return providers.Delta{}, err
		}
		if s.thought.open {
			s.Lookahead.Say(s.end(s.Lookahead.Place()))
		}
		return providers.Delta{}, io.EOF
	}
	return providers.Delta{}, nil
}

// start takes in what a message says of itself.
func (s *stream) start(v *fastjson.Value) {
	if model := v.GetStringBytes("model"); len(model) > 0 {
		s.model = string(model)
	}
	s.usage.read(v.Get("usage"))
}

// toolUse takes in the block of a tool call. In a stream its input is empty
// and follows as pieces of JSON.
func (s *stream) toolUse(index int, b *fastjson.Value) {
	s.said = true
	s.Lookahead.Calls.Begin(index, b.GetStringBytes("id"), b.GetStringBytes("name"))
	if input := b.GetObject("input"); input != nil && input.Len() > 0 {
		s.Lookahead.Calls.Value(index, b.Get("input"))
	}
}

// delta takes in a piece of a content block: of text, of a tool call, or of a thought.
func (s *stream) delta(v *fastjson.Value) providers.Delta {
	d := v.Get("delta")
	switch string(d.GetStringBytes("type")) {
	case "text_delta":
		return s.say(d.GetStringBytes("text"))
	case "input_json_delta":
		// Others are for tools of the API's own.
		s.Lookahead.Calls.Arguments(v.GetInt("index"), d.GetStringBytes("partial_json"))
	case "thinking_delta":
		return s.think(v.GetInt("index"), d.GetStringBytes("thinking"))
	case "signature_delta":
		s.sign(v.GetInt("index"), d.GetStringBytes("signature"))
	}
	return providers.Delta{}
}

func (s *stream) say(text []byte) providers.Delta {
	if len(text) == 0 {
		return providers.Delta{}
	}
	s.said = true
	return providers.Delta{Content: s.Body.String(text)}
}

// stopped takes in why the model stopped.
func (s *stream) stopped(v *fastjson.Value) {
	if reason := v.GetStringBytes("stop_reason"); len(reason) > 0 {
		s.stop, s.stopErr = finishReason(s.Call, reason)
	}
	details := v.Get("stop_details")
	if details == nil {
		return
	}
	s.reason = s.Text(details.Get("category"))
	if why := s.Text(details.Get("explanation")); why != "" {
		s.reason = strings.TrimPrefix(s.reason+": "+why, ": ")
	}
}

// fault judges a message at its end marker: nil where it is an answer.
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
		e.Message = s.reason
		return e
	case s.stop == "" && !s.said:
		return s.Invalid("the end marker without an answer")
	}
	return nil
}

// cut judges a body that ends, or breaks off, before the end marker.
func (s *stream) cut(err error) error { return s.Cut(err, !s.started && !s.said) }
