package acme

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// stream reads Acme's answers. Whole or streamed, they are server-sent events:
// {"text":…} any number of times, then {"done":…,"in":…,"out":…}; or an
// {"error":…} at any time.
type stream struct {
	client *Client
	body   io.ReadCloser
	events *upstream.EventReader
	result providers.Result
	err    error // the end: it stays
}

// Next returns the next delta.
func (s *stream) Next() (providers.Delta, error) {
	if s.err != nil {
		return providers.Delta{}, s.err
	}
	d, err := s.read()
	s.err = err
	return d, err
}

func (s *stream) read() (providers.Delta, error) {
	event, err := s.events.Next()
	if err != nil {
		// Only "done" is an end. Whatever else stops was cut.
		return providers.Delta{}, s.client.fail(providers.Truncated, http.StatusOK, "", err.Error())
	}
	var said struct {
		Text, Error string
		Done        providers.FinishReason
		In, Out     int64
	}
	if err := json.Unmarshal(event.Data, &said); err != nil {
		return providers.Delta{}, s.client.fail(providers.Invalid, http.StatusOK, "", err.Error())
	}
	switch {
	case said.Error != "":
		return providers.Delta{}, s.client.fail(providers.Reported, http.StatusOK, said.Error, "")
	case said.Done != "":
		s.result.FinishReason = said.Done
		s.result.Usage = providers.Usage{PromptTokens: said.In, CompletionTokens: said.Out, TotalTokens: said.In + said.Out}
		return providers.Delta{}, io.EOF
	}
	return providers.Delta{Content: said.Text, More: s.events.Buffered()}, nil
}

// Result is what is known of the answer.
func (s *stream) Result() providers.Result { return s.result }

// Close ends the call.
func (s *stream) Close() error {
	if s.err == nil {
		s.err = errors.New("the stream is closed")
	}
	return s.body.Close()
}
