package anthropic

import (
	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// thought is the block of a thought as it arrives.
type thought struct {
	open      bool
	index     int
	signature []byte
	redacted  string // the block of a thought that is not shown, as a whole
	large     bool   // the signature exceeds the limit
}

// The beginnings of the blocks of thoughts, as they go back to the API.
const (
	beforeThinking = `{"type":"thinking","thinking":`
	beforeRedacted = `{"type":"redacted_thinking","data":`
)

// begin takes in the beginning of a thought, or all of one that does not come in
// pieces.
func (s *stream) begin(index int, b *fastjson.Value) providers.Delta {
	s.thought = thought{open: true, index: index, signature: s.thought.signature[:0]}
	if data := b.GetStringBytes("data"); len(data) > 0 {
		s.thought.redacted = string(append(jsontext.AppendString([]byte(beforeRedacted), data), '}'))
		return providers.Delta{}
	}
	s.sign(index, b.GetStringBytes("signature"))
	return s.think(index, b.GetStringBytes("thinking"))
}

// think takes in a piece of a thought's text.
func (s *stream) think(index int, text []byte) providers.Delta {
	if !s.thought.open || s.thought.index != index || len(text) == 0 {
		return providers.Delta{}
	}
	return providers.Delta{Thinking: s.Body.String(text)}
}

// sign takes in a piece of a thought's signature.
func (s *stream) sign(index int, piece []byte) {
	if !s.thought.open || s.thought.index != index {
		return
	}
	if len(s.thought.signature)+len(piece) > upstream.MaxBody {
		s.thought.large = true
		return
	}
	s.thought.signature = append(s.thought.signature, piece...)
}

// end ends a thought. Its data is the block as the API wants it back, which checks that
// nothing of it was changed. Without a signature the API takes none back.
func (s *stream) end(at upstream.Place) providers.Delta {
	s.thought.open = false
	block := s.thought.redacted
	text, ok := s.Lookahead.Thinking()
	if block == "" && ok && len(s.thought.signature) > 0 && !s.thought.large {
		b := jsontext.AppendString([]byte(beforeThinking), text)
		b = jsontext.AppendString(append(b, `,"signature":`...), s.thought.signature)
		block = string(append(b, '}'))
	}
	if block != "" {
		block = at.Opaque(block)
	}
	return providers.Delta{Thought: &providers.Thought{Opaque: block}}
}
