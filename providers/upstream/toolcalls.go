package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
)

// maxToolCalls bounds the tool calls of one answer.
const maxToolCalls = 128

// ToolCalls puts the tool calls of an answer together from the pieces in which
// they arrive. Its zero value holds none.
type ToolCalls struct {
	calls    []toolCall
	size     int   // of all, in bytes
	overflow bool  // a limit was exceeded
	done     bool  // Finish was called; err and finished are its results
	err      error // of Finish
	finished []providers.ToolCall
}

type toolCall struct {
	index     int
	id, name  string
	arguments []byte
}

// Any reports whether there is a tool call.
func (t *ToolCalls) Any() bool { return len(t.calls) > 0 }

// Next begins a tool call of a provider that does not count them, and returns
// its index.
func (t *ToolCalls) Next(id, name []byte) int {
	n := len(t.calls)
	t.Begin(n, id, name)
	return n
}

// Begin begins a tool call. Index is what the provider counts it by, in later
// pieces.
func (t *ToolCalls) Begin(index int, id, name []byte) {
	if len(t.calls) == maxToolCalls || !t.fits(len(id)+len(name)) {
		t.overflow = true
		return
	}
	t.calls = append(t.calls, toolCall{index: index, id: string(id), name: string(name)})
}

// Piece adds to the tool call of an index, or begins it: where there is none
// yet, or where the id says that it is another one, as services count that know
// only one index.
func (t *ToolCalls) Piece(index int, id, name []byte) {
	c := t.at(index)
	switch {
	case c == nil, len(id) > 0 && c.id != "" && c.id != string(id):
		t.Begin(index, id, name)
		return
	case len(id) > 0 && c.id == "":
		c.id = string(id)
	}
	if len(name) > 0 && c.name == "" {
		c.name = string(name)
	}
}

// Arguments adds to the arguments of the tool call of an index. It is false
// where there is none.
func (t *ToolCalls) Arguments(index int, piece []byte) bool {
	c := t.at(index)
	if c == nil {
		return false
	}
	if t.overflow = t.overflow || !t.fits(len(piece)); t.overflow {
		return true
	}
	c.arguments = AppendText(c.arguments, piece)
	return true
}

// Value adds arguments that are a JSON value: a text that holds them, or they
// themselves.
func (t *ToolCalls) Value(index int, v *fastjson.Value) {
	switch {
	case v == nil || v.Type() == fastjson.TypeNull:
	case v.Type() == fastjson.TypeString:
		t.Arguments(index, v.GetStringBytes())
	default:
		t.Arguments(index, jsontext.AppendValue(nil, v))
	}
}

// at is the last tool call of an index.
func (t *ToolCalls) at(index int) *toolCall {
	for i := len(t.calls) - 1; i >= 0; i-- {
		if t.calls[i].index == index {
			return &t.calls[i]
		}
	}
	return nil
}

func (t *ToolCalls) fits(n int) bool {
	t.size += n
	return t.size <= MaxBody
}

// Finish returns the tool calls once the answer is complete. One that has no
// name, or arguments that are not JSON, is an error: the model, or the
// provider, did not get to its end. No arguments at all are those of a tool
// without parameters. Where the provider gives no ids, they are counted.
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
	for i := range t.calls {
		c := &t.calls[i]
		if c.name == "" {
			return nil, fmt.Errorf("its tool call %d has no name", i+1)
		}
		if len(bytes.TrimSpace(c.arguments)) == 0 {
			c.arguments = []byte("{}")
		}
		if !json.Valid(c.arguments) {
			return nil, fmt.Errorf("its tool call %d has arguments that are not JSON", i+1)
		}
		if c.id == "" {
			c.id = "call_" + strconv.Itoa(i+1)
		}
		calls[i] = providers.ToolCall{ID: c.id, Name: c.name, Arguments: strings.ToValidUTF8(string(c.arguments), replacement)}
	}
	return calls, nil
}
