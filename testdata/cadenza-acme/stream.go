package acme

import (
	"io"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// stream reads Acme's answers. Whole or streamed, they are server-sent events:
// {"text":…} any number of times, then {"done":…,"in":…,"out":…}; or an
// {"error":…} at any time.
type stream struct {
	upstream.EventAnswer
	said   bool
	result providers.Result
}

func newStream(call upstream.Call, body io.ReadCloser, result providers.Result) *stream {
	return &stream{EventAnswer: upstream.NewEventAnswer(call, body, "an answer"), result: result}
}

// Next returns the next delta.
func (s *stream) Next() (providers.Delta, error) { return s.Lookahead.Next(s) }

// Result is what is known of the answer.
func (s *stream) Result() providers.Result { return s.result }

// Step reads one event.
func (s *stream) Step() (providers.Delta, error) {
	event, err := s.Event()
	if err != nil {
		// Only "done" is an end. Whatever else stops was cut.
		return providers.Delta{}, s.Cut(err, !s.said)
	}
	v, err := s.Parse(event)
	if err != nil {
		return providers.Delta{}, s.Cut(err, false)
	}
	if code := s.Text(v.Get("error")); code != "" {
		e := s.Error(providers.Reported)
		e.Code = code
		return providers.Delta{}, e
	}
	if word := v.GetStringBytes("done"); len(word) > 0 {
		in, out := upstream.Tokens(v.Get("in")), upstream.Tokens(v.Get("out"))
		s.result.Usage = providers.Usage{PromptTokens: in, CompletionTokens: out, TotalTokens: in + out}
		return providers.Delta{}, s.end(string(word))
	}
	text := v.GetStringBytes("text")
	s.said = s.said || len(text) > 0
	return providers.Delta{Content: s.Body.String(text)}, nil
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
			return s.Refused(word)
		}
		s.result.FinishReason = providers.FinishContentFilter
	default:
		return s.Invalid("it stopped for an unknown reason", s.Redact(word))
	}
	return io.EOF
}
