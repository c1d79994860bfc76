package gemini

import (
	"io"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// stream is an answer as it arrives: server-sent events, one JSON value, or a
// list of values.
type stream struct {
	upstream.EventAnswer
	tail   *tailReader // the body's end
	buffer []byte      // joins the parts of a chunk

	result    providers.Result
	finish    string // the API's word
	calls     functionCalls
	candidate bool   // a part of the answer was seen
	said      bool   // text was seen
	blocked   string // why the prompt was refused
}

func newStream(k upstream.Call, body io.ReadCloser, leftOut []string) *stream {
	t := &tailReader{ReadCloser: body}
	return &stream{
		EventAnswer: upstream.NewEventAnswer(k, t, "an answer"),
		tail:        t,
		result:      providers.Result{LeftOut: leftOut},
	}
}

// Next returns the next delta.
func (s *stream) Next() (providers.Delta, error) { return s.Lookahead.Next(s) }

// Result is what is known of the answer.
func (s *stream) Result() providers.Result {
	r := s.result
	r.FinishReason, _ = finishReason(s.finish, s.calls.Any())
	return r
}

// Step reads one step of the answer.
func (s *stream) Step() (providers.Delta, error) {
	event, err := s.Event()
	if err != nil {
		return providers.Delta{}, s.end(err)
	}
	event.Name = nil // the API names no events
	v, err := s.Parse(event)
	switch {
	case err != nil:
		return providers.Delta{}, s.Cut(err, false)
	case v == nil:
		return providers.Delta{}, nil
	case event.Whole:
		return s.answer(v)
	}
	text, tool, err := s.take(v)
	if err != nil {
		return providers.Delta{}, err
	}
	d := providers.Delta{ToolCall: tool}
	if len(text) > 0 {
		d.Content = s.Body.String(text)
	}
	return d, nil
}

// answer reads a whole answer: one value, or a list of chunks, which is what a
// stream is when something on the way drops alt=sse.
func (s *stream) answer(v *fastjson.Value) (providers.Delta, error) {
	values := v.GetArray()
	if values == nil {
		values = []*fastjson.Value{v}
	}
	var all []byte
	for _, v := range values {
		text, _, err := s.take(v)
		if err != nil {
			return providers.Delta{}, err
		}
		if len(values) == 1 {
			all = text // no copy
		} else {
			all = upstream.AppendText(all, text)
		}
	}
	if err := s.fault(); err != nil {
		return providers.Delta{}, err
	}
	s.Lookahead.Last()
	return providers.Delta{Content: string(all)}, nil
}

// take takes in a chunk, or a whole answer. It returns its text, and whether it
// holds a tool call.
func (s *stream) take(v *fastjson.Value) (text []byte, tool bool, err error) {
	if isError(v) {
		return nil, false, reported(s.Call, v)
	}
	if v.Type() != fastjson.TypeObject {
		return nil, false, s.Invalid("neither an answer nor an error")
	}
	c := chunk{calls: &s.calls}
	s.buffer = c.read(v, s.buffer, &s.result)
	if c.fault != "" {
		return nil, false, s.Invalid(c.fault)
	}
	if c.blocked != "" {
		s.blocked = c.blocked
	}
	s.candidate = s.candidate || c.candidate
	switch {
	case c.finish != "":
		s.finish = c.finish
	case len(c.text) > 0 || c.tool:
		// Some models name a finishReason with every chunk: what counts is the
		// last one that says something.
		s.finish = ""
	}
	s.said = s.said || len(c.text) > 0
	return c.text, c.tool, nil
}

// end judges the end of the body, or its failure.
func (s *stream) end(err error) error {
	if err != io.EOF { // a wrapped EOF is not an orderly end
		return s.Cut(err, false)
	}
	if bare := s.tail.bare(); bare != nil {
		if v, err := s.Body.Parse(bare); err == nil {
			if list := v.GetArray(); len(list) > 0 {
				v = list[0]
			}
			if isError(v) {
				return reported(s.Call, v)
			}
		}
	}
	if err := s.fault(); err != nil {
		return err
	}
	return io.EOF
}

// fault judges an answer at the proper end of its body: nil where it is one.
func (s *stream) fault() error {
	reason, mayBeEmpty := finishReason(s.finish, s.calls.Any())
	empty := !s.said && !s.calls.Any()
	switch {
	case s.blocked != "" && !s.candidate:
		return s.Refused(s.Redact(s.blocked))
	case s.finish == "" && !s.candidate:
		return s.Invalid("an empty answer")
	case s.finish == "":
		return s.Error(providers.Truncated)
	case reason == "":
		return s.Invalid("an answer that ended for an unexpected reason", s.Redact(s.finish))
	case empty && reason == providers.FinishContentFilter:
		return s.Refused(s.Redact(s.finish))
	case empty && !mayBeEmpty:
		return s.Invalid("an answer without text that ended for an unexpected reason", s.Redact(s.finish))
	}
	calls, err := s.calls.Finish()
	if err != nil {
		return s.Invalid("not a whole answer: " + err.Error())
	}
	s.result.ToolCalls = calls
	return nil
}
