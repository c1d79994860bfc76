package openai

import (
	"bytes"
	"io"
	"time"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// The waits after an answer's finish. Services send the usage and the end marker
// with it, or within milliseconds; but some send neither, and keep the connection
// open.
const (
	// lingerContent is for a finish that came with content, as some services send
	// one with each word: there may be more.
	lingerContent = 2 * time.Second
	// lingerUsage is for the usage.
	lingerUsage = time.Second
	// lingerMarker is for the end marker alone, which adds nothing to the answer.
	lingerMarker = 250 * time.Millisecond
)

// stream is an answer as it arrives: server-sent events, or one JSON value.
type stream struct {
	upstream.EventAnswer
	buffer []byte // joins the parts of a text
	detail detail // that goes on

	result  providers.Result
	linger  time.Duration // how long to wait for late chunks; 0: not decided again
	choice  bool          // a part of the answer was seen
	content bool          // content was seen
	refusal bool          // the model refused to go on
}

func newStream(k upstream.Call, body io.ReadCloser, leftOut []string) *stream {
	return &stream{
		EventAnswer: upstream.NewEventAnswer(k, body, "a completion"),
		result:      providers.Result{LeftOut: leftOut},
	}
}

// Next returns the next delta.
func (s *stream) Next() (providers.Delta, error) { return s.Lookahead.Next(s) }

// Result is the answer as far as it is known.
func (s *stream) Result() providers.Result {
	r := s.result
	r.Thoughts = s.Lookahead.Thoughts()
	r.Refusal, r.Refused = s.Lookahead.Refusal()
	if r.Logprobs != nil {
		r.Logprobs = append(r.Logprobs[:len(r.Logprobs):len(r.Logprobs)], ']')
	}
	return r
}

// Step reads one step of the answer.
func (s *stream) Step() (providers.Delta, error) {
	if s.linger > 0 && !s.Ready() {
		s.Linger(s.linger)
		s.linger = 0
	}
	event, err := s.Event()
	if err != nil {
		return providers.Delta{}, s.end(err)
	}
	if !event.Whole && bytes.Equal(event.Data, done) {
		return providers.Delta{}, s.marker()
	}
	v, err := s.Parse(event)
	switch {
	case err != nil:
		return providers.Delta{}, s.end(err)
	case v == nil:
		return providers.Delta{}, nil
	case event.Whole:
		return s.whole(v)
	case string(event.Name) == "error":
		e := reported(s.Call, v)
		if e == nil {
			e = s.Error(providers.Reported)
			e.Message = s.Excerpt(event.Data)
		}
		return providers.Delta{}, e
	}
	return s.take(v)
}

var done = []byte("[DONE]")

// whole reads a whole answer.
func (s *stream) whole(v *fastjson.Value) (providers.Delta, error) {
	d, err := s.take(v)
	if err != nil {
		return d, err
	}
	if s.result.FinishReason == "" {
		return providers.Delta{}, s.Invalid("an answer without a finished choice")
	}
	if err := s.complete(); err != io.EOF {
		return providers.Delta{}, err
	}
	s.Lookahead.Last()
	return d, nil
}

// take takes in a chunk, or a whole answer.
func (s *stream) take(v *fastjson.Value) (providers.Delta, error) {
	var p piece
	p, s.buffer = readPiece(&s.Call, v, &s.result, s.buffer)
	if p.err != nil {
		if s.result.FinishReason != "" && !p.choice {
			return providers.Delta{}, s.complete()
		}
		return providers.Delta{}, p.err
	}
	s.choice = s.choice || p.choice
	var d providers.Delta
	s.think(&p, &d)
	if len(p.content) > 0 {
		s.content = true
		d.Content = s.Body.String(p.content)
	}
	if list := p.logprobs.GetArray(); len(list) > 0 {
		d.Logprobs = jsontext.AppendValue(nil, p.logprobs)
		s.addLogprobs(d.Logprobs)
	}
	if p.refuses {
		if !s.content && len(p.tools) == 0 && !s.Lookahead.Calls.Any() {
			return providers.Delta{}, s.refused()
		}
		s.refusal = true
	}
	if len(p.refusal) > 0 {
		if d.Content != "" {
			s.Lookahead.Say(d)
		}
		d = providers.Delta{Content: s.Body.String(p.refusal), Refusal: true}
	}
	if len(p.tools) > 0 {
		readToolCalls(p.tools, &s.Lookahead.Calls)
	}
	says := d.Content != "" || len(p.tools) > 0
	if s.result.FinishReason != "" && says {
		// It was not the end after all.
		s.result.FinishReason = ""
		s.linger = 0
		s.StopLinger()
	}
	if p.finish == "" {
		if s.result.FinishReason != "" && s.result.Usage.TotalTokens > 0 {
			s.linger = lingerMarker
		}
		return d, nil
	}
	s.result.FinishReason = p.finish
	if p.finish == providers.FinishContentFilter && !s.content && !s.Lookahead.Calls.Any() {
		return providers.Delta{}, s.refused()
	}
	switch {
	case says:
		s.linger = lingerContent
	case s.result.Usage.TotalTokens > 0:
		s.linger = lingerMarker
	default:
		s.linger = lingerUsage
	}
	return d, nil
}

// think reads the thoughts of a chunk. They go to the delta if it has nothing
// else to say.
func (s *stream) think(p *piece, d *providers.Delta) {
	text := false
	for _, v := range p.details {
		text = s.detail.add(v, &s.Lookahead, &s.Body) || text
	}
	alone := len(p.content) == 0 && len(p.tools) == 0
	if len(p.thinking) > 0 && !text {
		// With details it is their text once more, unless they have none.
		if thinking := s.Body.String(p.thinking); alone {
			d.Thinking = thinking
		} else {
			s.Lookahead.Say(providers.Delta{Thinking: thinking})
		}
	}
	if !alone {
		s.detail.end(&s.Lookahead)
	}
}

// addLogprobs adds a list of log probabilities to the whole answer's, whose
// closing bracket Result adds.
func (s *stream) addLogprobs(list []byte) {
	all := s.result.Logprobs
	if all == nil {
		all = append(all, '[')
	} else {
		all = append(all, ',')
	}
	s.result.Logprobs = append(all, list[1:len(list)-1]...)
}

// complete ends the stream: the answer is whole, if its tool calls are.
func (s *stream) complete() error {
	s.StopLinger()
	s.detail.end(&s.Lookahead)
	calls, err := s.Lookahead.Calls.Finish()
	if err != nil {
		return s.Invalid("not a whole answer: " + err.Error())
	}
	s.result.ToolCalls = calls
	switch reason := &s.result.FinishReason; {
	case s.refusal:
		*reason = providers.FinishContentFilter
	case len(calls) > 0 && (*reason == providers.FinishStop || *reason == ""):
		// Some services say so of every answer.
		*reason = providers.FinishToolCalls
	case *reason == providers.FinishToolCalls && len(calls) == 0 && !s.content:
		return s.Invalid("an answer of tool calls without a tool call")
	}
	return io.EOF
}

func (s *stream) refused() error { return s.Refused(string(s.result.FinishReason)) }

// marker judges the end marker: alone it completes nothing.
func (s *stream) marker() error {
	if s.result.FinishReason == "" && !s.content && !s.Lookahead.Calls.Any() {
		return s.Invalid("the end marker without an answer")
	}
	return s.complete()
}

// end judges the end of the body, its failure, and data that is no JSON: the
// rest of a cut stream, text that reports an error, or nonsense.
func (s *stream) end(err error) error {
	if s.result.FinishReason != "" {
		// All content was here: only the usage may be missing.
		return s.complete()
	}
	return s.Cut(err, !s.choice)
}
