package bedrock

import (
	"errors"
	"io"
	"time"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// linger bounds the wait for the usage after the answer's end.
const linger = 2 * time.Second

// stream is an answer as it arrives: an event stream, or one JSON value.
type stream struct {
	upstream.Answer
	messages *messageReader
	begun    bool // the format is known

	result  providers.Result
	thought upstream.BlockThought
	some    bool // an event was seen
	content bool // content was seen
	stopped bool // messageStop was seen: the answer is whole

	uncalled bool // the tools are there for the sake of the history alone
}

func newStream(k upstream.Call, body io.ReadCloser, model string, leftOut []string) *stream {
	return &stream{
		Answer:   upstream.NewAnswer(k, body),
		messages: newMessageReader(body, upstream.MaxEvent),
		// No answer names its model.
		result: providers.Result{Model: model, LeftOut: leftOut},
	}
}

// Next returns the next delta.
func (s *stream) Next() (providers.Delta, error) { return s.Lookahead.Next(s) }

// Ready reports whether a step can be had without waiting.
func (s *stream) Ready() bool { return s.messages.Buffered() }

// Result is the answer as far as it is known.
func (s *stream) Result() providers.Result {
	r := s.result
	r.Thoughts = s.Lookahead.Thoughts()
	return r
}

// Step reads one step of the answer.
func (s *stream) Step() (providers.Delta, error) {
	if !s.begun {
		d, whole, err := s.first()
		if whole || err != nil {
			return d, err
		}
	}
	msg, err := s.messages.Next()
	if err != nil {
		return providers.Delta{}, s.end(err)
	}
	return s.take(msg)
}

// first finds out the format from the first byte: no header is to be trusted
// in this. An event stream begins with the length of a message, whose first
// byte is 0 as messages are smaller than 16 MiB; a JSON value is the whole
// answer, asked for or not.
func (s *stream) first() (d providers.Delta, whole bool, err error) {
	s.begun = true
	head, err := s.messages.Peek()
	if err != nil {
		return d, false, s.end(err)
	}
	if head[0] == 0 {
		return d, false, nil
	}
	d, err = s.json(head)
	return d, true, err
}

// json reads a whole answer, of which head was already read.
func (s *stream) json(head []byte) (providers.Delta, error) {
	body, err := s.Body.Whole(head)
	if err != nil {
		return providers.Delta{}, s.end(err)
	}
	v, err := s.Body.Parse(body)
	if err != nil {
		return providers.Delta{}, s.Invalid("neither JSON nor an event stream", s.Excerpt(body))
	}
	message := v.Get("output", "message")
	if message == nil {
		e := reported(s.Call, "", "")
		if describe(s.Call, e, v) {
			return providers.Delta{}, e
		}
		return providers.Delta{}, s.Invalid("an answer without a message")
	}
	readUsage(v, &s.result.Usage)
	if content := message.Get("content"); content != nil && content.Type() != fastjson.TypeArray && content.Type() != fastjson.TypeNull {
		return providers.Delta{}, s.Invalid("the content is no list of blocks")
	}
	for _, part := range message.GetArray("content") {
		if reasoning := part.Get("reasoningContent"); reasoning != nil {
			if block := reasoning.Get("reasoningText"); block != nil {
				reasoning = block
			}
			s.Lookahead.Say(s.thought.Take(&format, reasoning, &s.Body))
			s.thought.Break(&format, &s.Lookahead)
		}
		if text := part.GetStringBytes("text"); len(text) > 0 {
			s.content = true
			s.Lookahead.Say(providers.Delta{Content: s.Body.String(text)})
		}
		if tool := part.Get("toolUse"); tool != nil {
			if s.uncalled {
				return providers.Delta{}, s.called()
			}
			index := s.Lookahead.Calls.Next(tool.GetStringBytes("toolUseId"), tool.GetStringBytes("name"))
			s.Lookahead.Calls.Value(index, tool.Get("input"))
			s.Lookahead.Calls.End(index)
		}
	}
	if err := s.stop(v.GetStringBytes("stopReason")); err != nil {
		return providers.Delta{}, err
	}
	s.Lookahead.Last()
	return providers.Delta{}, nil
}

// take takes in one message of an event stream.
func (s *stream) take(msg message) (providers.Delta, error) {
	switch msg.kind {
	case "event":
	case "exception", "error":
		if s.stopped {
			return providers.Delta{}, s.complete()
		}
		return providers.Delta{}, s.exception(msg)
	default:
		return providers.Delta{}, s.Invalid("a message of an unknown type", s.Excerpt([]byte(msg.kind)))
	}
	s.some = true
	switch msg.name {
	case "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata":
	default:
		// messageStart, and event types that AWS may add.
		return providers.Delta{}, nil
	}
	v, err := s.Body.Parse(msg.payload)
	if errors.Is(err, providers.ErrNoRoom) {
		return providers.Delta{}, s.end(err)
	}
	if err != nil || v.Type() != fastjson.TypeObject {
		if s.stopped {
			return providers.Delta{}, s.complete()
		}
		return providers.Delta{}, s.Invalid("an event that is not JSON", s.Excerpt(msg.payload))
	}
	switch msg.name {
	case "contentBlockStart":
		tool := v.Get("start", "toolUse")
		if tool == nil {
			return providers.Delta{}, nil
		}
		if s.stopped {
			return providers.Delta{}, s.late()
		}
		if s.uncalled {
			return providers.Delta{}, s.called()
		}
		s.thought.Break(&format, &s.Lookahead)
		s.Lookahead.Calls.Begin(v.GetInt("contentBlockIndex"), tool.GetStringBytes("toolUseId"), tool.GetStringBytes("name"))
		return providers.Delta{}, nil
	case "contentBlockDelta":
		return s.delta(v)
	case "contentBlockStop":
		s.thought.Break(&format, &s.Lookahead)
		s.Lookahead.Calls.End(v.GetInt("contentBlockIndex"))
	case "messageStop":
		s.thought.Break(&format, &s.Lookahead)
		again := s.stopped
		if err := s.stop(v.GetStringBytes("stopReason")); err != nil {
			return providers.Delta{}, err
		}
		if !again { // only the usage follows
			s.Linger(linger)
		}
	case "metadata":
		readUsage(v, &s.result.Usage)
		if s.stopped {
			return providers.Delta{}, s.complete()
		}
	}
	return providers.Delta{}, nil
}

// delta takes in a piece of a block: of text, of a tool call, or of a thought.
func (s *stream) delta(v *fastjson.Value) (providers.Delta, error) {
	text, input := v.GetStringBytes("delta", "text"), v.GetStringBytes("delta", "toolUse", "input")
	var thought *fastjson.Value
	if len(text) == 0 && len(input) == 0 {
		if thought = v.Get("delta", "reasoningContent"); thought == nil {
			return providers.Delta{}, nil
		}
	}
	if s.stopped {
		return providers.Delta{}, s.late()
	}
	if thought != nil {
		return s.thought.Take(&format, thought, &s.Body), nil
	}
	s.thought.Break(&format, &s.Lookahead)
	if len(text) > 0 {
		s.content = true
		return providers.Delta{Content: s.Body.String(text)}, nil
	}
	if !s.Lookahead.Calls.Arguments(v.GetInt("contentBlockIndex"), input) {
		return providers.Delta{}, s.Invalid("the input of a tool call that did not begin")
	}
	return providers.Delta{}, nil
}

// called is the error of a tool call where none may be called.
func (s *stream) called() error {
	return s.Invalid("a tool call, where none may be called")
}

func (s *stream) late() error { return s.Invalid("content after the end of the message") }

// stop judges why the model stopped.
func (s *stream) stop(reason []byte) error {
	finish, failure := finishReason(s.Call, reason)
	if failure != nil {
		return failure
	}
	said := s.content || s.Lookahead.Calls.Any()
	if finish == providers.FinishContentFilter && !said {
		return s.Refused(string(reason))
	}
	calls, err := s.Lookahead.Calls.Finish()
	switch {
	case err != nil:
		return s.Invalid("not a whole answer: " + err.Error())
	case finish == providers.FinishToolCalls && !said:
		return s.Invalid("an answer of tool calls without a tool call")
	case finish == providers.FinishStop && len(calls) > 0:
		finish = providers.FinishToolCalls
	}
	s.result.FinishReason, s.result.ToolCalls = finish, calls
	s.stopped = true
	return nil
}

// exception is the error that a message of the stream reports.
func (s *stream) exception(msg message) error {
	e := reported(s.Call, errorWord(msg.name), msg.text)
	if len(msg.payload) == 0 {
		return e
	}
	name := e.Code
	s.Describe(e, msg.payload, describe)
	if name != "" {
		e.Code = name
	}
	return e
}

// complete ends the stream: the answer is whole.
func (s *stream) complete() error {
	s.StopLinger()
	return io.EOF
}

// end judges the end of the body, or its failure.
func (s *stream) end(err error) error {
	if s.stopped {
		// All content was here: only the usage may be missing.
		return s.complete()
	}
	if errors.Is(err, errMessage) {
		return s.Invalid(err.Error())
	}
	return s.Cut(err, !s.some)
}
