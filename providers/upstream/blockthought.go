package upstream

import (
	"encoding/base64"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
)

// BlockThought is the block of a thought as it arrives, in pieces or as a whole. Its
// zero value is no thought.
type BlockThought struct {
	// Open reports whether a thought goes on, and Index is the index of its block.
	Open  bool
	Index int

	signature []byte
	redacted  []byte // in base64, of a thought that is not shown
	large     bool   // the two exceed the limit
}

// Take adds a delta of a thought: its text, its signature, or the data that is
// there in place of a thought that is not shown.
func (t *BlockThought) Take(f *BlockFormat, v *fastjson.Value, body *Body) (d providers.Delta) {
	t.Open = true
	signature, redacted := v.GetStringBytes("signature"), v.GetStringBytes(f.RedactedMember)
	if len(t.signature)+len(t.redacted)+len(signature)+len(redacted) > MaxBody {
		t.large = true
	} else {
		t.signature = append(t.signature, signature...)
		t.redacted = appendBase64(t.redacted, redacted)
	}
	if text := v.GetStringBytes(f.ThinkingMember); len(text) > 0 {
		d.Thinking = body.String(text)
	}
	return d
}

// End ends the thought, which was at a place of the answer. Its data is the block as
// the model wants it back, which checks that nothing of it was changed. Without a
// signature none is taken back.
func (t *BlockThought) End(f *BlockFormat, ahead *Lookahead, at Place) providers.Delta {
	var block []byte
	text, ok := ahead.Thinking()
	switch {
	case t.large:
	case len(t.redacted) > 0:
		block = append(jsontext.AppendString([]byte(f.Redacted), t.redacted), f.RedactedEnd...)
	case len(t.signature) > 0 && ok:
		block = append(jsontext.AppendString([]byte(f.Thinking), text), `,"signature":`...)
		block = append(jsontext.AppendString(block, t.signature), f.ThinkingEnd...)
	}
	*t = BlockThought{}
	d := providers.Delta{Thought: new(providers.Thought)}
	if block != nil {
		d.Thought.Opaque = at.Opaque(string(block))
	}
	return d
}

// Break ends a thought that goes on: another thing follows.
func (t *BlockThought) Break(f *BlockFormat, ahead *Lookahead) {
	if t.Open {
		ahead.Say(t.End(f, ahead, ahead.Place()))
	}
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
