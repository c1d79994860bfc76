package bedrock

import (
	"encoding/base64"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// thought is the block of a thought as it arrives.
type thought struct {
	open      bool
	signature []byte
	redacted  []byte // in base64, of a thought that is not shown
	large     bool   // one of the two exceeds the limit
}

// beforeThought is the beginning of the block of a thought, as it goes back.
const beforeThought = `{"reasoningContent":{"`

// think takes in a piece of a thought: its text, its signature, or what is there in
// place of a thought that is not shown.
func (s *stream) think(v *fastjson.Value) providers.Delta {
	t := &s.thought
	t.open = true
	signature, redacted := v.GetStringBytes("signature"), v.GetStringBytes("redactedContent")
	if len(t.signature)+len(t.redacted)+len(signature)+len(redacted) > upstream.MaxBody {
		t.large = true
	} else {
		t.signature = append(t.signature, signature...)
		t.redacted = appendBase64(t.redacted, redacted)
	}
	if text := v.GetStringBytes("text"); len(text) > 0 {
		return providers.Delta{Thinking: s.Body.String(text)}
	}
	return providers.Delta{}
}

// appendBase64 appends data in base64 to other such data.
func appendBase64(dst, data []byte) []byte {
	if len(dst) == 0 || len(data) == 0 {
		return append(dst, data...)
	}
	first, err := base64.StdEncoding.AppendDecode(nil, dst)
	if err != nil {
		return dst
	}
	both, err := base64.StdEncoding.AppendDecode(first, data)
	if err != nil {
		return dst
	}
	return base64.StdEncoding.AppendEncode(dst[:0], both)
}

// noThought ends a thought that goes on: another thing follows.
func (s *stream) noThought() {
	if s.thought.open {
		s.Lookahead.Say(s.thoughtEnds(s.Lookahead.Place()))
	}
}

// thoughtEnds ends a thought. Its data is the block as the model wants it back, which
// checks that nothing of it was changed. Without a signature none is taken back.
func (s *stream) thoughtEnds(at upstream.Place) providers.Delta {
	t := s.thought
	s.thought = thought{}
	var block []byte
	text, ok := s.Lookahead.Thinking()
	switch {
	case t.large || !ok:
	case len(t.redacted) > 0:
		block = jsontext.AppendString([]byte(beforeThought+`redactedContent":`), t.redacted)
		block = append(block, "}}"...)
	case len(t.signature) > 0:
		block = jsontext.AppendString([]byte(beforeThought+`reasoningText":{"text":`), text)
		block = jsontext.AppendString(append(block, `,"signature":`...), t.signature)
		block = append(block, "}}}"...)
	}
	d := providers.Delta{Thought: new(providers.Thought)}
	if block != nil {
		d.Thought.Opaque = at.Opaque(string(block))
	}
	return d
}
