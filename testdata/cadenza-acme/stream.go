package acme

import (
	"io"
	"net/http"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// stream reads Acme's answers. Whole or streamed, they are server-sent events:
// {"text":…} any number of times, then {"done":…,"in":…,"out":…}; or an
// {"error":…} at any time.
type stream struct {
	upstream.Lookahead
	key    string
	body   upstream.Body
	events *upstream.EventReader
	said   bool
	result providers.Result
}

func newStream(body io.ReadCloser, key string, result providers.Result) *stream {
	return &stream{
		key:    key,
		body:   upstream.NewBody(body),
		events: upstream.NewEventReader(body, upstream.MaxEvent),
		result: result,
	}
}

// Next returns the next delta.
func (s *stream) Next() (providers.Delta, error) { return s.Lookahead.Next(s) }

// Ready reports whether a step can be had without waiting.
func (s *stream) Ready() bool { return s.events.Buffered() }

// Step reads one event.
func (s *stream) Step() (providers.Delta, error) {
	event, err := s.events.Next()
	if err != nil {
		// Only "done" is an end. Whatever else stops was cut.
		return providers.Delta{}, &providers.Error{Provider: "acme", Kind: providers.Truncated, Status: http.StatusOK, Err: err}
	}
	v, err := s.body.Parse(event.Data)
	if err != nil {
		return providers.Delta{}, fail(providers.Invalid, http.StatusOK, "", err.Error())
	}
	if code := v.GetStringBytes("error"); len(code) > 0 {
		return providers.Delta{}, fail(providers.Reported, http.StatusOK, upstream.Redact(string(code), s.key), "")
	}
	if word := v.GetStringBytes("done"); len(word) > 0 {
		in, out := upstream.Tokens(v.Get("in")), upstream.Tokens(v.Get("out"))
		s.result.Usage = providers.Usage{PromptTokens: in, CompletionTokens: out, TotalTokens: in + out}
		return providers.Delta{}, s.end(string(word))
	}
	text := v.GetStringBytes("text")
	s.said = s.said || len(text) > 0
	return providers.Delta{Content: s.body.String(text)}, nil
}

// end judges why the model stopped: io.EOF where what it said is an answer.
func (s *stream) end(word string) error {
	switch word {
	case "stop":
		s.result.FinishReason = providers.FinishStop
	case "limit":
		s.result.FinishReason = providers.FinishLength
	case "policy":
		if !s.said {
			return fail(providers.Refused, http.StatusOK, word, "")
		}
		s.result.FinishReason = providers.FinishContentFilter
	default:
		return fail(providers.Invalid, http.StatusOK, "", "it stopped for an unknown reason: "+upstream.Redact(word, s.key))
	}
	return io.EOF
}

// Result is what is known of the answer.
func (s *stream) Result() providers.Result { return s.result }

// Close ends the call.
func (s *stream) Close() error {
	s.Lookahead.Close()
	return s.body.Close()
}
