package gemini

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// stream is an answer as it arrives: server-sent events, one JSON value, or a
// list of values.
type stream struct {
	upstream.Lookahead
	call
	body   upstream.Body
	tail   *tailReader // the body's end
	events *upstream.EventReader
	begun  bool   // the format is known
	buffer []byte // joins the parts of a chunk

	result    providers.Result
	finish    string // the API's word
	calls     functionCalls
	candidate bool   // a part of the answer was seen
	said      bool   // text was seen
	blocked   string // why the prompt was refused
	whole     bool   // the answer is complete: the next step ends the stream
}

func newStream(k call, body io.ReadCloser, leftOut []string) *stream {
	t := &tailReader{ReadCloser: body}
	return &stream{
		call:   k,
		body:   upstream.NewBody(t),
		tail:   t,
		events: upstream.NewEventReader(t, upstream.MaxEvent),
		result: providers.Result{LeftOut: leftOut},
	}
}

// Next returns the next delta.
func (s *stream) Next() (providers.Delta, error) { return s.Lookahead.Next(s) }

// Ready reports whether a step can be had without waiting.
func (s *stream) Ready() bool { return s.whole || s.events.Buffered() }

// Result is what is known of the answer.
func (s *stream) Result() providers.Result {
	r := s.result
	r.FinishReason, _ = finishReason(s.finish, s.calls.Any())
	return r
}

// Close ends the call. A complete answer was read to the body's end, so its
// connection is used again.
func (s *stream) Close() error {
	if !s.Lookahead.Close() {
		return nil
	}
	return s.body.Close()
}

// Step reads one step of the answer.
func (s *stream) Step() (providers.Delta, error) {
	if s.whole {
		return providers.Delta{}, io.EOF
	}
	if !s.begun {
		if d, done, err := s.first(); done || err != nil {
			return d, err
		}
	}
	event, err := s.events.Next()
	if err != nil {
		return providers.Delta{}, s.end(err)
	}
	if len(bytes.TrimSpace(event.Data)) == 0 {
		return providers.Delta{}, nil
	}
	v, err := s.body.Parse(event.Data)
	if errors.Is(err, providers.ErrNoRoom) {
		return providers.Delta{}, s.cut(err)
	}
	if err != nil {
		return providers.Delta{}, s.invalid("an event that is not JSON", s.excerpt(event.Data))
	}
	text, tool, err := s.take(v)
	if err != nil {
		return providers.Delta{}, err
	}
	d := providers.Delta{ToolCall: tool}
	if len(text) > 0 {
		d.Content = s.body.String(text)
	}
	return d, nil
}

// first finds out the format. A JSON value is the whole answer, asked for or
// not.
func (s *stream) first() (d providers.Delta, done bool, err error) {
	s.begun = true
	format, head, err := s.events.Format()
	if err != nil {
		return d, false, s.end(err)
	}
	switch format {
	case upstream.FormatJSON:
		d, err = s.answer(head)
		return d, true, err
	case upstream.FormatHTML:
		return d, false, s.invalid("a page of HTML, not an answer", s.excerpt(head))
	}
	return d, false, nil
}

// answer reads a whole answer, of which head was already read: one value, or a
// list of chunks, which is what a stream is when something on the way drops
// alt=sse.
func (s *stream) answer(head []byte) (providers.Delta, error) {
	body, err := s.body.Whole(head)
	if err != nil {
		return providers.Delta{}, s.cut(err)
	}
	v, err := s.body.Parse(body)
	if err != nil {
		return providers.Delta{}, s.invalid("not JSON", s.excerpt(body))
	}
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
	s.whole = true
	return providers.Delta{Content: string(all)}, nil
}

// take takes in a chunk, or a whole answer. It returns its text, and whether it
// holds a tool call.
func (s *stream) take(v *fastjson.Value) (text []byte, tool bool, err error) {
	if isError(v) {
		return nil, false, s.reported(v)
	}
	if v.Type() != fastjson.TypeObject {
		return nil, false, s.invalid("neither an answer nor an error")
	}
	c := chunk{calls: &s.calls}
	s.buffer = c.read(v, s.buffer, &s.result)
	if c.fault != "" {
		return nil, false, s.invalid(c.fault)
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
	if err != io.EOF { // a wrapped EOF is no end in good order
		return s.cut(err)
	}
	if bare := s.tail.bare(); bare != nil {
		if v, err := s.body.Parse(bare); err == nil {
			if list := v.GetArray(); len(list) > 0 {
				v = list[0]
			}
			if isError(v) {
				return s.reported(v)
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
		return s.refused(s.blocked)
	case s.finish == "" && !s.candidate:
		return s.invalid("an empty answer")
	case s.finish == "":
		return &providers.Error{Provider: s.name, Kind: providers.Truncated, Status: http.StatusOK}
	case reason == "":
		return s.invalid("an answer that ended for an unexpected reason", upstream.Redact(s.finish, s.secret))
	case empty && reason == providers.FinishContentFilter:
		return s.refused(s.finish)
	case empty && !mayBeEmpty:
		return s.invalid("an answer without text that ended for an unexpected reason", upstream.Redact(s.finish, s.secret))
	}
	calls, err := s.calls.Finish()
	if err != nil {
		return s.invalid("not a whole answer: " + err.Error())
	}
	s.result.ToolCalls = calls
	return nil
}

func (s *stream) refused(reason string) *providers.Error {
	return &providers.Error{
		Provider: s.name, Kind: providers.Refused, Status: http.StatusOK, Code: upstream.Redact(reason, s.secret),
	}
}

// cut judges a body that breaks off. Whatever was said before, it may not have
// been all.
func (s *stream) cut(err error) error {
	if errors.Is(err, upstream.ErrTooLarge) {
		return s.invalid("the answer is larger than the limit")
	}
	return &providers.Error{Provider: s.name, Kind: providers.Truncated, Status: http.StatusOK, Err: err}
}
