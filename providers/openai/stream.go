package openai

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

const (
	// linger bounds the wait for the usage after the answer's finish.
	linger = 2 * time.Second
	// drainTime and drainSize bound the reading of a finished body to its end,
	// without which the connection cannot be used again.
	drainTime = 100 * time.Millisecond
	drainSize = 4 << 10
	// textBlock is how much text is allocated at a time.
	textBlock = 4 << 10
	// maxPooledParser bounds what a parser may have read to be kept.
	maxPooledParser = 64 << 10
)

var parsers = sync.Pool{New: func() any { return new(fastjson.Parser) }}

// stream is an answer as it arrives: server-sent events, or one JSON value.
type stream struct {
	client *Client
	body   io.ReadCloser
	events *upstream.EventReader
	begun  bool // the format is known
	parser *fastjson.Parser
	parsed int // the longest text the parser has read
	text   strings.Builder

	result  providers.Result
	choices bool // a choice was seen
	content bool // content was seen
	linger  *time.Timer

	ahead   bool // next and its error are already read
	next    providers.Delta
	nextErr error
	err     error // the end: it stays
	closed  bool
}

func newStream(c *Client, resp *http.Response) *stream {
	return &stream{
		client: c,
		body:   resp.Body,
		events: upstream.NewEventReader(resp.Body, upstream.MaxEvent),
		parser: parsers.Get().(*fastjson.Parser),
	}
}

// Next returns the next delta.
func (s *stream) Next() (providers.Delta, error) {
	if s.err != nil {
		return providers.Delta{}, s.err
	}
	var d providers.Delta
	if s.ahead {
		d, s.err = s.next, s.nextErr
		s.ahead = false
	} else {
		d, s.err = s.read()
	}
	if s.err != nil {
		return providers.Delta{}, s.err
	}
	// What can be had without waiting is looked at now: only then is it known
	// whether it leads to another delta.
	for s.events.Buffered() {
		s.next, s.nextErr = s.read()
		if s.nextErr != nil || s.next.Content != "" {
			s.ahead, d.More = true, true
			break
		}
	}
	return d, nil
}

// Result is what is known of the answer.
func (s *stream) Result() providers.Result { return s.result }

// Close ends the call.
func (s *stream) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	if s.err == nil {
		s.err = errors.New("the stream is closed")
	}
	if s.err == io.EOF {
		// The rest is the end of the framing, most likely already here.
		t := time.AfterFunc(drainTime, func() { s.body.Close() })
		io.CopyN(io.Discard, s.body, drainSize)
		t.Stop()
	}
	s.stopLinger()
	err := s.body.Close()
	if s.parsed <= maxPooledParser {
		parsers.Put(s.parser)
	}
	s.parser = nil
	return err
}

// read reads one step of the answer.
func (s *stream) read() (providers.Delta, error) {
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
	v, err := s.parse(event.Data)
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

// first finds out the format from the first byte that is no white space: no
// header is to be trusted in this. A JSON value is then the whole answer,
// asked for or not.
func (s *stream) first() (d providers.Delta, whole bool, err error) {
	s.begun = true
	head, err := s.events.Peek()
	if err != nil {
		return d, false, s.end(err)
	}
	switch start := bytes.TrimLeft(bytes.TrimPrefix(head, byteOrderMark), " \t\r\n"); start[0] {
	case '{', '[', '"':
		d, err = s.json(io.MultiReader(bytes.NewReader(head), s.body))
		return d, true, err
	case '<':
		return d, false, s.client.invalid("a page of HTML, not a completion: " + s.client.excerpt(start))
	}
	return d, false, nil
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// ended is a reader at its end.
type ended struct{}

func (ended) Read([]byte) (int, error) { return 0, io.EOF }

// json reads a whole answer.
func (s *stream) json(r io.Reader) (providers.Delta, error) {
	body, err := io.ReadAll(io.LimitReader(r, upstream.MaxBody+1))
	if err != nil {
		return providers.Delta{}, s.end(err)
	}
	if len(body) > upstream.MaxBody {
		return providers.Delta{}, s.client.invalid("the answer is larger than the limit")
	}
	v, err := s.parse(bytes.TrimPrefix(body, byteOrderMark))
	if err != nil {
		return providers.Delta{}, s.client.invalid("not JSON: " + s.client.excerpt(body))
	}
	d, err := s.take(v)
	if err != nil {
		return d, err
	}
	if s.result.FinishReason == "" {
		return providers.Delta{}, s.client.invalid("an answer without a finished choice")
	}
	// The next read ends the stream.
	s.events = upstream.NewEventReader(ended{}, 1)
	return d, nil
}

// take takes in a chunk, or a whole answer.
func (s *stream) take(v *fastjson.Value) (providers.Delta, error) {
	p := s.client.readPiece(v, &s.result)
	if p.err != nil {
		if s.result.FinishReason != "" {
			return providers.Delta{}, s.complete()
		}
		return providers.Delta{}, p.err
	}
	s.choices = s.choices || p.choices
	if p.refusal {
		return providers.Delta{}, s.refused()
	}
	var d providers.Delta
	if len(p.content) > 0 {
		s.content = true
		d.Content = s.string(p.content)
		if s.result.FinishReason != "" {
			// It was not the end after all.
			s.result.FinishReason = ""
			s.stopLinger()
		}
	}
	if p.finish == "" {
		return d, nil
	}
	switch {
	case p.finish == "error":
		return providers.Delta{}, &providers.Error{
			Provider: s.client.name, Kind: providers.Reported, Status: http.StatusOK, Code: p.finish,
		}
	case p.finish == "content_filter" && !s.content:
		s.result.FinishReason = p.finish
		return providers.Delta{}, s.refused()
	}
	s.result.FinishReason = p.finish
	// What follows is the usage and the end marker. Some services keep the
	// connection open instead.
	if s.linger == nil {
		s.linger = time.AfterFunc(linger, func() { s.body.Close() })
	} else {
		s.linger.Reset(linger)
	}
	return d, nil
}

// complete ends the stream: the answer is whole.
func (s *stream) complete() error {
	s.stopLinger()
	return io.EOF
}

func (s *stream) refused() error {
	return &providers.Error{Provider: s.client.name, Kind: providers.Refused, Status: http.StatusOK, Code: s.result.FinishReason}
}

// marker judges the end marker: alone it completes nothing.
func (s *stream) marker() error {
	if s.result.FinishReason == "" && !s.content {
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
	if err == io.EOF {
		err = nil
		if !s.choices {
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
	return s.client.invalid("an event that is not JSON: " + s.client.excerpt(event.Data))
}

func (s *stream) stopLinger() {
	if s.linger != nil {
		s.linger.Stop()
	}
}

func (s *stream) parse(data []byte) (*fastjson.Value, error) {
	s.parsed = max(s.parsed, len(data))
	return s.parser.ParseBytes(data)
}

// string copies a piece of text. Pieces share a block, which is only ever
// appended to, so they stay as they are and cost no allocation each.
func (s *stream) string(b []byte) string {
	if s.text.Cap()-s.text.Len() < len(b) {
		s.text = strings.Builder{}
		s.text.Grow(max(textBlock, len(b)))
	}
	n := s.text.Len()
	s.text.Write(b)
	return s.text.String()[n:]
}

// excerpt is the beginning of a body, for the log.
func (c *Client) excerpt(b []byte) string {
	return c.redact(string(b[:min(len(b), 512)]))
}
