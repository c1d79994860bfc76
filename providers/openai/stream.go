package openai

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/valyala/fastjson"

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
	upstream.Lookahead
	client *Client
	body   upstream.Body
	events *upstream.EventReader
	begun  bool // the format is known

	buffer []byte // joins the parts of a text

	result  providers.Result
	tools   upstream.ToolCalls
	choice  bool // a part of the answer was seen
	content bool // content was seen
	refusal bool // the model refused to go on
	linger  *time.Timer
}

func newStream(c *Client, resp *http.Response, leftOut []string) *stream {
	return &stream{
		client: c,
		body:   upstream.NewBody(resp.Body),
		events: upstream.NewEventReader(resp.Body, upstream.MaxEvent),
		result: providers.Result{LeftOut: leftOut},
	}
}

// Next returns the next delta.
func (s *stream) Next() (providers.Delta, error) { return s.Lookahead.Next(s) }

// Ready reports whether a step can be had without waiting.
func (s *stream) Ready() bool { return s.events.Buffered() }

// Result is what is known of the answer.
func (s *stream) Result() providers.Result { return s.result }

// Close ends the call.
func (s *stream) Close() error {
	if !s.Lookahead.Close() {
		return nil
	}
	if errors.Is(s.Err(), io.EOF) {
		s.body.Drain()
	}
	s.stopLinger()
	return s.body.Close()
}

// Step reads one step of the answer.
func (s *stream) Step() (providers.Delta, error) {
	if !s.begun {
		d, whole, err := s.first()
		if whole || err != nil {
			return d, err
		}
	}
	event, err := s.events.Next()
	if err != nil {
		return providers.Delta{}, s.end(err)
	}
	if bytes.Equal(event.Data, done) {
		return providers.Delta{}, s.marker()
	}
	if len(bytes.TrimSpace(event.Data)) == 0 {
		return providers.Delta{}, nil
	}
	v, err := s.body.Parse(event.Data)
	if errors.Is(err, providers.ErrNoRoom) {
		return providers.Delta{}, s.end(err)
	}
	if err != nil {
		return providers.Delta{}, s.unreadable(event)
	}
	if string(event.Name) == "error" {
		if e := s.client.reported(v); e != nil {
			return providers.Delta{}, e
		}
		return providers.Delta{}, &providers.Error{
			Provider: s.client.name, Kind: providers.Reported, Status: http.StatusOK, Message: s.client.excerpt(event.Data),
		}
	}
	return s.take(v)
}

var done = []byte("[DONE]")

// first finds out the format. A JSON value is the whole answer, asked for or
// not.
func (s *stream) first() (d providers.Delta, whole bool, err error) {
	s.begun = true
	format, head, err := s.events.Format()
	if err != nil {
		return d, false, s.end(err)
	}
	switch format {
	case upstream.FormatJSON:
		d, err = s.json(head)
		return d, true, err
	case upstream.FormatHTML:
		return d, false, s.client.invalid("a page of HTML, not a completion", s.client.excerpt(head))
	}
	return d, false, nil
}

// json reads a whole answer, of which head was already read.
func (s *stream) json(head []byte) (providers.Delta, error) {
	body, err := s.body.Whole(head)
	if err != nil {
		return providers.Delta{}, s.end(err)
	}
	v, err := s.body.Parse(body)
	if err != nil {
		return providers.Delta{}, s.client.invalid("not JSON", s.client.excerpt(body))
	}
	d, err := s.take(v)
	if err != nil {
		return d, err
	}
	if s.result.FinishReason == "" {
		return providers.Delta{}, s.client.invalid("an answer without a finished choice")
	}
	if err := s.complete(); err != io.EOF {
		return providers.Delta{}, err
	}
	// The next step ends the stream.
	s.events = upstream.NewEventReader(http.NoBody, 1)
	return d, nil
}

// take takes in a chunk, or a whole answer.
func (s *stream) take(v *fastjson.Value) (providers.Delta, error) {
	var p piece
	p, s.buffer = s.client.readPiece(v, &s.result, s.buffer)
	if p.err != nil {
		if s.result.FinishReason != "" && !p.choice {
			return providers.Delta{}, s.complete()
		}
		return providers.Delta{}, p.err
	}
	s.choice = s.choice || p.choice
	var d providers.Delta
	if len(p.content) > 0 {
		s.content = true
		d.Content = s.body.String(p.content)
	}
	if len(p.tools) > 0 {
		readToolCalls(p.tools, &s.tools)
		d.ToolCall = true
	}
	if p.refusal {
		if !s.content && !s.tools.Any() {
			return providers.Delta{}, s.refused()
		}
		s.refusal = true
	}
	if s.result.FinishReason != "" && (d.Content != "" || d.ToolCall) {
		// It was not the end after all.
		s.result.FinishReason = ""
		s.stopLinger()
	}
	if p.finish == "" {
		if s.result.FinishReason != "" && s.result.Usage.TotalTokens > 0 {
			s.wait(lingerMarker)
		}
		return d, nil
	}
	s.result.FinishReason = p.finish
	if p.finish == providers.FinishContentFilter && !s.content && !s.tools.Any() {
		return providers.Delta{}, s.refused()
	}
	switch {
	case d.Content != "" || d.ToolCall:
		s.wait(lingerContent)
	case s.result.Usage.TotalTokens > 0:
		s.wait(lingerMarker)
	default:
		s.wait(lingerUsage)
	}
	return d, nil
}

// wait ends the answer after a time, unless it ends before.
func (s *stream) wait(d time.Duration) {
	if s.linger == nil {
		s.linger = time.AfterFunc(d, s.body.Interrupt)
	} else {
		s.linger.Reset(d)
	}
}

// complete ends the stream: the answer is whole, if its tool calls are.
func (s *stream) complete() error {
	s.stopLinger()
	calls, err := s.tools.Finish()
	if err != nil {
		return s.client.invalid("not a whole answer: " + err.Error())
	}
	s.result.ToolCalls = calls
	switch reason := &s.result.FinishReason; {
	case s.refusal:
		*reason = providers.FinishContentFilter
	case len(calls) > 0 && (*reason == providers.FinishStop || *reason == ""):
		// Some services say so of every answer.
		*reason = providers.FinishToolCalls
	case *reason == providers.FinishToolCalls && len(calls) == 0 && !s.content:
		return s.client.invalid("an answer of tool calls without a tool call")
	}
	return io.EOF
}

func (s *stream) refused() error {
	return &providers.Error{Provider: s.client.name, Kind: providers.Refused, Status: http.StatusOK, Code: string(s.result.FinishReason)}
}

// marker judges the end marker: alone it completes nothing.
func (s *stream) marker() error {
	if s.result.FinishReason == "" && !s.content && !s.tools.Any() {
		return s.client.invalid("the end marker without an answer")
	}
	return s.complete()
}

// end judges the end of the body, or its failure.
func (s *stream) end(err error) error {
	if s.result.FinishReason != "" {
		// All content was here: only the usage may be missing.
		return s.complete()
	}
	if errors.Is(err, upstream.ErrTooLarge) {
		return s.client.invalid("the answer is larger than the limit")
	}
	if errors.Is(err, io.EOF) {
		err = nil
		if !s.choice {
			return s.client.invalid("an empty answer")
		}
	}
	return &providers.Error{Provider: s.client.name, Kind: providers.Truncated, Status: http.StatusOK, Err: err}
}

// unreadable judges an event that is no JSON: the rest of a cut stream, text
// that reports an error, or nonsense.
func (s *stream) unreadable(event upstream.Event) error {
	if s.result.FinishReason != "" {
		return s.complete()
	}
	if string(event.Name) == "error" {
		return &providers.Error{
			Provider: s.client.name, Kind: providers.Reported, Status: http.StatusOK, Message: s.client.excerpt(event.Data),
		}
	}
	return s.client.invalid("an event that is not JSON", s.client.excerpt(event.Data))
}

func (s *stream) stopLinger() {
	if s.linger != nil {
		s.linger.Stop()
	}
}

// excerpt is the beginning of a body, for the log.
func (c *Client) excerpt(b []byte) string {
	return upstream.Excerpt(b, c.key)
}
