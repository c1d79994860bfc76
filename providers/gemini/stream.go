package gemini

import (
	"errors"
	"io"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// stream is an answer as it arrives: server-sent events, one JSON value, or a
// list of values.
type stream struct {
	upstream.EventAnswer
	tail   *tailReader // the body's end
	run    []byte      // text in a row of a chunk, valid until the next chunk is read
	thinks bool        // run is the model's thinking
	buffer []byte      // joins the parts of run

	logprobs bool // they were asked for
	search   searching

	result    providers.Result
	finish    string // the API's word
	calls     functionCalls
	candidate bool   // a part of the answer was seen
	text      int    // bytes of text
	blocked   string // why the prompt was refused
}

func newStream(k upstream.Call, body io.ReadCloser, logprobs bool, leftOut []string) *stream {
	t := &tailReader{ReadCloser: body}
	return &stream{
		EventAnswer: upstream.NewEventAnswer(k, t, "an answer"),
		tail:        t,
		logprobs:    logprobs,
		result:      providers.Result{LeftOut: leftOut},
	}
}

// Next returns the next delta.
func (s *stream) Next() (providers.Delta, error) { return s.Lookahead.Next(s) }

// Result is the answer as far as it is known.
func (s *stream) Result() providers.Result {
	r := s.result
	r.FinishReason, _ = finishReason(s.finish, s.calls.count > 0)
	r.Thoughts, r.Found = s.Lookahead.Thoughts(), s.Lookahead.Found()
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
	return s.take(v, false)
}

// answer reads a whole answer: one value, or a list of chunks, which is what a
// stream is when something on the way drops alt=sse.
func (s *stream) answer(v *fastjson.Value) (providers.Delta, error) {
	values := v.GetArray()
	if values == nil {
		values = []*fastjson.Value{v}
	}
	var last providers.Delta
	for i, v := range values {
		if i > 0 {
			s.Lookahead.Say(last)
		}
		var err error
		if last, err = s.take(v, true); err != nil {
			return providers.Delta{}, err
		}
	}
	s.Lookahead.Say(last)
	if err := s.fault(); err != nil {
		return providers.Delta{}, err
	}
	s.Lookahead.Last()
	return providers.Delta{}, nil
}

// take takes in a chunk, or a whole answer.
func (s *stream) take(v *fastjson.Value, whole bool) (providers.Delta, error) {
	if upstream.IsError(v) {
		return providers.Delta{}, reported(s.Call, v)
	}
	if v.Type() != fastjson.TypeObject {
		return providers.Delta{}, s.Invalid("neither an answer nor an error")
	}
	c := readChunk(v, &s.result)
	if c.fault != "" {
		return providers.Delta{}, s.Invalid(c.fault)
	}
	if c.blocked != "" {
		s.blocked = c.blocked
	}
	s.candidate = s.candidate || c.candidate != nil
	if s.search.on {
		s.search.read(v, &c)
	}
	text, called := s.text, false
	for _, p := range c.parts {
		tool, err := s.part(p)
		if err != nil {
			return providers.Delta{}, s.Invalid(err.Error())
		}
		called = called || tool
	}
	switch {
	case c.finish != "":
		s.finish = c.finish
	case s.text > text || called:
		// Some models name a finishReason with every chunk: the last chunk that
		// says something decides.
		s.finish = ""
	}
	d := s.flush()
	if s.logprobs {
		d.Logprobs = logprobs(c.candidate.Get("logprobsResult"))
		if whole {
			s.result.Logprobs = joinLogprobs(s.result.Logprobs, d.Logprobs)
		}
	}
	return d, nil
}

var errTextless = errors.New("a part of the content is a text without text")

// part takes in a part of the answer. It reports whether that is a function call, or a
// piece of one. Texts of one kind in a row are joined.
func (s *stream) part(p *fastjson.Value) (called bool, err error) {
	v := p.Get("text")
	var signature []byte
	thinks := false
	// Looking for an absent member takes longest, and most parts are a text alone.
	if o := p.GetObject(); v == nil || o.Len() > 1 {
		signature, thinks = p.GetStringBytes("thoughtSignature"), p.GetBool("thought")
		f := p.Get("functionCall")
		switch {
		case s.search.holds(s.text) && (v == nil || thinks):
			return f != nil, s.search.hold(s.text, jsontext.AppendValue(nil, p))
		case s.search.holds(s.text) && len(signature) > 0:
			err, signature = s.search.hold(s.text, append(jsontext.AppendString([]byte(`{"thoughtSignature":`), string(signature)), '}')), nil
		case f != nil:
			s.Lookahead.Say(s.flush())
			return true, s.calls.read(&s.Lookahead.Calls, f, signature)
		case s.search.on && (p.Exists("toolCall") || p.Exists("toolResponse")):
			s.own(p)
			return false, nil
		}
	}
	if v != nil && v.Type() != fastjson.TypeString && v.Type() != fastjson.TypeNull {
		return false, errTextless
	}
	text := v.GetStringBytes()
	if len(signature) > 0 && !thinks {
		// The signature of a text is reported as a thought before it.
		s.Lookahead.Say(s.flush())
		s.Lookahead.Say(providers.Delta{Thought: s.thought(ofText, signature)})
	}
	if thinks != s.thinks && len(text) > 0 {
		s.Lookahead.Say(s.flush())
		s.thinks = thinks
	}
	switch {
	case len(text) == 0:
	case len(s.run) == 0:
		s.run = text
	default:
		s.buffer = upstream.AppendText(append(s.buffer[:0], s.run...), text)
		s.run = s.buffer
	}
	if len(signature) > 0 && thinks {
		s.Lookahead.Say(s.flush())
		s.Lookahead.Say(providers.Delta{Thought: s.thought(ofThought, signature)})
	}
	if !thinks {
		s.text += len(text)
		s.search.said(text)
	}
	return false, err
}

// thought returns the thought that a signature ends, in its place.
func (s *stream) thought(of string, signature []byte) *providers.Thought {
	return &providers.Thought{Opaque: upstream.Place{Text: s.text, Calls: s.calls.count}.Opaque(of + string(signature))}
}

// flush returns the text in a row as a delta.
func (s *stream) flush() (d providers.Delta) {
	if len(s.run) == 0 {
		return d
	}
	text := s.Body.String(s.run)
	s.run = nil
	if s.thinks {
		d.Thinking = text
	} else {
		d.Content = text
	}
	return d
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
			if upstream.IsError(v) {
				return reported(s.Call, v)
			}
		}
	}
	if err := s.fault(); err != nil {
		return err
	}
	return io.EOF
}

// fault ends and judges an answer at the proper end of its body: nil if it is complete.
func (s *stream) fault() error {
	if err := s.found(); err != nil {
		return err
	}
	reason, mayBeEmpty := finishReason(s.finish, s.calls.count > 0)
	empty := s.text == 0 && s.calls.count == 0
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
	err := s.calls.fault()
	var calls []providers.ToolCall
	if err == nil {
		calls, err = s.Lookahead.Calls.Finish()
	}
	if err != nil {
		return s.Invalid("not a whole answer: " + err.Error())
	}
	s.result.ToolCalls = calls
	return nil
}
