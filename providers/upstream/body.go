package upstream

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fastjson"
)

const (
	// drainTime and drainSize bound the reading of a finished body to its end,
	// without which the connection cannot be used again.
	drainTime = 100 * time.Millisecond
	drainSize = 4 << 10
	// firstText and textBlock are how much text is allocated at a time: the first
	// time, and when an answer turns out to be long.
	firstText = 512
	textBlock = 4 << 10
	// maxPooledParser bounds the size of the bodies that a parser may have read
	// to be kept.
	maxPooledParser = 64 << 10
)

var parsers = sync.Pool{New: func() any { return new(fastjson.Parser) }}

// Body is the body of an answer and the tools to read it: a parser, and
// memory for its text. Close must be called.
type Body struct {
	reader io.ReadCloser
	parser *fastjson.Parser // nil: none is needed at present
	parsed int              // the longest text the parser has read
	held   int              // for the parser
	ended  bool             // it was read to its end
	text   strings.Builder
}

// NewBody makes a body of a response's.
func NewBody(body io.ReadCloser) Body {
	return Body{reader: body}
}

// Parse parses JSON. The value is valid until the next call, or Rest or Close. Half
// characters at the edges of its strings are kept for AppendText and Lookahead,
// which join them. The error is ErrTooLarge beyond maxValues, and
// providers.ErrNoRoom if there is no memory for it.
func (b *Body) Parse(data []byte) (*fastjson.Value, error) {
	data, err := soundEscapes(data)
	if err != nil {
		return nil, err
	}
	if err := b.holdParsed(data); err != nil {
		return nil, err
	}
	if b.parser == nil {
		b.parser = parsers.Get().(*fastjson.Parser)
	}
	b.parsed = max(b.parsed, len(data))
	return b.parser.ParseBytes(data)
}

// String copies a piece of text. Pieces share a block, which is only ever
// appended to, so they stay as they are and cost no allocation each.
func (b *Body) String(text []byte) string {
	if b.text.Cap()-b.text.Len() < len(text) {
		size := min(max(2*b.text.Cap(), firstText), textBlock)
		b.text = strings.Builder{}
		b.text.Grow(max(size, len(text)))
	}
	n := b.text.Len()
	b.text.Write(text)
	return b.text.String()[n:]
}

// Whole reads the whole body, of which head was already read, without a byte
// order mark. It reads into the memory that head has left, as far as that goes. The
// error is ErrTooLarge beyond MaxBody or maxValues, providers.ErrNoRoom where there
// is no memory for it, or the reader's own.
func (b *Body) Whole(head []byte) ([]byte, error) {
	body, err := readWhole(head, b.reader)
	if err != nil {
		return nil, err
	}
	b.ended = true
	body = bytes.TrimPrefix(body, byteOrderMark)
	return body, b.holdParsed(body) // here, because it is no failure of parsing
}

// Drain reads on to the end of the framing, which is most likely here already,
// so that the connection can be used again.
func (b *Body) Drain() {
	if b.ended {
		return
	}
	t := time.AfterFunc(drainTime, b.Interrupt)
	_, _ = io.CopyN(io.Discard, b.reader, drainSize)
	t.Stop()
}

// Interrupt ends a read that waits, and every later one. Unlike the other
// methods it may be called by another goroutine.
func (b *Body) Interrupt() { _ = b.reader.Close() }

// Close closes the body and gives back the parser. It may be called again.
func (b *Body) Close() error {
	err := b.reader.Close()
	b.Rest()
	return err
}

// Rest gives back the parser until the next call of Parse, unless it is a large one.
// A stream that waits for its provider needs none.
func (b *Body) Rest() {
	if b.parser != nil && b.parsed <= maxPooledParser {
		parsers.Put(b.parser)
		b.parser = nil
	}
}

// Format is the format of a body.
type Format uint8

// The formats.
const (
	FormatEvents Format = iota // server-sent events, unless they turn out otherwise
	FormatJSON
	FormatHTML
)

// Format finds out what the body holds from its first byte that is no white
// space: no header is to be trusted in this. It returns the bytes that it read.
// The error is that of reading.
func (e *EventReader) Format() (Format, []byte, error) {
	head, err := e.Peek()
	if err != nil {
		return 0, nil, err
	}
	switch start := bytes.TrimLeft(bytes.TrimPrefix(head, byteOrderMark), " \t\r\n"); start[0] {
	case '{', '[', '"':
		return FormatJSON, head, nil
	case '<':
		return FormatHTML, start, nil
	}
	return FormatEvents, head, nil
}

// maxTokens is beyond any real count of tokens, and low enough to be summed.
const maxTokens = 1 << 53

// Countable reports whether each of some counts of tokens that is there makes sense. Where
// one does not, no count next to it is to be relied on: the answer's tokens are
// estimated.
func Countable(counts ...*fastjson.Value) bool {
	for _, v := range counts {
		if v == nil || v.Type() == fastjson.TypeNull {
			continue
		}
		if f, err := v.Float64(); v.Type() != fastjson.TypeNumber || err != nil || !(f >= 0 && f <= maxTokens) {
			return false
		}
	}
	return true
}

// Tokens reads a count of tokens, and returns 0 if it makes no sense.
func Tokens(v *fastjson.Value) int64 {
	if v == nil || v.Type() != fastjson.TypeNumber {
		return 0
	}
	f, err := v.Float64()
	if err != nil || !(f >= 0 && f <= maxTokens) {
		return 0
	}
	return int64(f)
}

// UpdateTokens sets a running count of tokens to v. A count that is absent,
// zero or makes no sense says nothing new.
func UpdateTokens(count *int64, v *fastjson.Value) {
	if n := Tokens(v); n > 0 {
		*count = n
	}
}

// IsError reports whether a JSON value has a member error that is not null.
func IsError(v *fastjson.Value) bool {
	e := v.Get("error")
	return e != nil && e.Type() != fastjson.TypeNull
}
