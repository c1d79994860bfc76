package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
)

// maxToolCalls bounds the tool calls of one answer.
const maxToolCalls = 128

// ToolCalls puts the tool calls of an answer together from the pieces in which
// they arrive. Its zero value holds none.
//
// A Lookahead hands the pieces out as they arrive, all pieces of a call before the
// pieces of the next one. A piece out of turn is held until the call before is known
// to be over: by End, by Next, by arguments that are a whole object when another
// call begins, or by Finish. A call whose id or name is missing is held, too.
type ToolCalls struct {
	calls    []*toolCall
	size     int   // of all, in bytes
	overflow bool  // a limit was exceeded
	done     bool  // Finish was called; err and finished are its results
	err      error // of Finish
	finished []providers.ToolCall

	saying int                   // the call whose pieces are handed out
	pieces []providers.CallPiece // a block, of which parts are handed out
}

type toolCall struct {
	index     int
	id, name  string
	idless    bool            // it has no id, and none is waited for
	arguments strings.Builder // valid UTF-8
	tail      []byte          // half a character that follows them
	opaque    string
	ended     bool // nothing more comes

	begun  bool // the id and the name were handed out
	said   int  // so many bytes of the arguments were handed out
	opened bool // the opaque data was handed out
}

// Any reports whether there is a tool call.
func (t *ToolCalls) Any() bool { return len(t.calls) > 0 }

// Next begins a tool call of a provider that does not count them, and returns
// its index. The calls before it are over.
func (t *ToolCalls) Next(id, name []byte) int {
	if n := len(t.calls); n > 0 {
		t.calls[n-1].ended = true
	}
	n := len(t.calls)
	t.Begin(n, id, name)
	return n
}

// Begin begins a tool call. Index is its number in the provider's count, in
// later pieces. A call without an id stays without one: see providers.ToolCall.
func (t *ToolCalls) Begin(index int, id, name []byte) {
	if c := t.begin(index, id, name); c != nil {
		c.settle()
	}
}

// begin is Begin for a call whose id may still come, nil beyond the limits.
func (t *ToolCalls) begin(index int, id, name []byte) *toolCall {
	if len(t.calls) == maxToolCalls || !t.fits(len(id)+len(name)) {
		t.overflow = true
		return nil
	}
	if c := t.at(index); c != nil {
		c.ended = true
	}
	for _, c := range t.calls[t.saying:] {
		if c.ended = c.ended || c.isObject(); !c.ended {
			break
		}
	}
	c := &toolCall{index: index, id: string(id), name: string(name)}
	t.calls = append(t.calls, c)
	return c
}

// settle has a call without an id wait for none.
func (c *toolCall) settle() { c.idless = c.id == "" }

// Piece adds to the tool call of an index, or begins it: if there is none yet, or if
// the id says that it is another one, as services count that know only one index. The
// id and the name may come late; an id that comes neither with the name nor with the
// next piece is not waited for.
func (t *ToolCalls) Piece(index int, id, name []byte) {
	c := t.at(index)
	switch {
	case c == nil, len(id) > 0 && (c.id != "" && c.id != string(id) || c.idless && len(name) > 0):
		t.begin(index, id, name)
		return
	case c.id != "" || c.idless:
	case len(id) > 0 && t.fits(len(id)):
		c.id = string(id)
	case c.name != "" && c.arguments.Len() > 0:
		c.settle()
	}
	if len(name) > 0 && c.name == "" && t.fits(len(name)) {
		c.name = string(name)
	}
}

// Arguments adds to the arguments of the tool call of an index, and reports
// whether there is one.
func (t *ToolCalls) Arguments(index int, piece []byte) bool {
	c := t.at(index)
	if c == nil {
		return false
	}
	if t.overflow = t.overflow || !t.fits(len(piece)); t.overflow {
		return true
	}
	c.add(piece)
	return true
}

// Value adds arguments that are a JSON value: a text that holds them, or they
// themselves, after which nothing more comes.
func (t *ToolCalls) Value(index int, v *fastjson.Value) {
	switch {
	case v == nil || v.Type() == fastjson.TypeNull:
	case v.Type() == fastjson.TypeString:
		t.Arguments(index, v.GetStringBytes())
	default:
		t.Arguments(index, jsontext.AppendValue(nil, v))
		t.End(index)
	}
}

// Opaque sets the provider's own data of the tool call of an index. It must come
// before the next call begins.
func (t *ToolCalls) Opaque(index int, data []byte) {
	if c := t.at(index); c != nil && len(data) > 0 {
		if t.overflow = t.overflow || !t.fits(len(data)); !t.overflow {
			c.opaque = string(data)
		}
	}
}

// End says that nothing more comes of the tool call of an index.
func (t *ToolCalls) End(index int) {
	if c := t.at(index); c != nil {
		c.ended = true
	}
}

// at is the last tool call of an index.
func (t *ToolCalls) at(index int) *toolCall {
	for i := len(t.calls) - 1; i >= 0; i-- {
		if t.calls[i].index == index {
			return t.calls[i]
		}
	}
	return nil
}

func (t *ToolCalls) fits(n int) bool {
	t.size += n
	return t.size <= MaxBody
}

// add adds to the arguments. An invalid character becomes U+FFFD; half a character
// at the end waits for the other half. White space around them is left out.
func (c *toolCall) add(piece []byte) {
	if len(c.tail) > 0 {
		piece = AppendText(c.tail, piece)
		c.tail = nil
	}
	if c.arguments.Len() == 0 || c.ended {
		piece = bytes.TrimLeft(piece, " \t\r\n")
	}
	if n := halfRune(piece); n > 0 {
		c.tail = bytes.Clone(piece[len(piece)-n:])
		piece = piece[:len(piece)-n]
	}
	if !utf8.Valid(piece) {
		piece = bytes.ToValidUTF8(piece, []byte(replacement))
	}
	c.arguments.Write(piece)
}

// isObject reports whether the arguments are a whole object.
func (c *toolCall) isObject() bool {
	text := c.arguments.String()
	return len(c.tail) == 0 && strings.HasSuffix(strings.TrimRight(text, " \t\r\n"), "}") && json.Valid([]byte(text))
}

// blockOfPieces is how many pieces are allocated at a time.
const blockOfPieces = 16

// take returns the pieces that can be handed out, if any.
func (t *ToolCalls) take() []providers.CallPiece {
	if t.saying == len(t.calls) || t.overflow {
		return nil
	}
	from := len(t.pieces)
	for ; t.saying < len(t.calls); t.saying++ {
		c := t.calls[t.saying]
		if c.id == "" && !c.idless || c.name == "" {
			break
		}
		over := c.ended || t.done
		if over {
			c.close()
		}
		p := providers.CallPiece{Index: t.saying, Arguments: c.arguments.String()[c.said:]}
		says := p.Arguments != ""
		c.said += len(p.Arguments)
		if !c.begun {
			p.ID, p.Name = c.id, c.name
			c.begun, says = true, true
		}
		if c.opaque != "" && !c.opened {
			p.Opaque = c.opaque
			c.opened, says = true, true
		}
		if says {
			if len(t.pieces) == cap(t.pieces) {
				t.pieces = append(make([]providers.CallPiece, 0, len(t.pieces)-from+blockOfPieces), t.pieces[from:]...)
				from = 0
			}
			t.pieces = append(t.pieces, p)
		}
		if !over {
			break
		}
	}
	if from == len(t.pieces) {
		return nil
	}
	return t.pieces[from:len(t.pieces):len(t.pieces)]
}

// close makes the arguments of a call that is over whole: none at all are the
// arguments of a tool without parameters.
func (c *toolCall) close() {
	if len(c.tail) > 0 {
		c.arguments.WriteString(replacement)
		c.tail = nil
	}
	if c.arguments.Len() == 0 {
		c.arguments.WriteString("{}")
	}
}

// Finish returns the tool calls once the answer is complete. One that has no
// name, or arguments that are not JSON, is an error: the model, or the
// provider, did not get to its end. No arguments at all are the arguments of a
// tool without parameters.
func (t *ToolCalls) Finish() ([]providers.ToolCall, error) {
	if !t.done {
		t.done = true
		t.finished, t.err = t.finish()
	}
	return t.finished, t.err
}

func (t *ToolCalls) finish() ([]providers.ToolCall, error) {
	if t.overflow {
		return nil, errors.New("its tool calls exceed the limits")
	}
	if len(t.calls) == 0 {
		return nil, nil
	}
	calls := make([]providers.ToolCall, len(t.calls))
	for i, c := range t.calls {
		if c.name == "" {
			return nil, fmt.Errorf("its tool call %d has no name", i+1)
		}
		c.close()
		if !json.Valid([]byte(c.arguments.String())) {
			return nil, fmt.Errorf("its tool call %d has arguments that are not JSON", i+1)
		}
		c.settle()
		calls[i] = providers.ToolCall{ID: c.id, Name: c.name, Arguments: c.arguments.String(), Opaque: c.opaque}
	}
	return calls, nil
}
