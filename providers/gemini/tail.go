package gemini

import (
	"bytes"
	"io"

	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// tailSize is how much of a body's end is kept.
const tailSize = 4 << 10

// tailReader keeps the last bytes that were read through it. When Google's
// servers fail in the middle of a stream they write the error as bare JSON,
// indented and without "data:", which to a reader of server-sent events is a
// number of fields that it does not know.
type tailReader struct {
	io.ReadCloser
	tail []byte
}

// Read reads on.
func (t *tailReader) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if t.tail == nil {
		t.tail = make([]byte, 0, tailSize)
	}
	p = p[:n]
	if len(p) >= tailSize {
		p, t.tail = p[len(p)-tailSize:], t.tail[:0]
	}
	if over := len(t.tail) + len(p) - tailSize; over > 0 {
		t.tail = t.tail[:copy(t.tail, t.tail[over:])]
	}
	t.tail = append(t.tail, p...)
	return n, err
}

// Hold counts the memory of the answer.
func (t *tailReader) Hold(bytes int) error { return upstream.Hold(t.ReadCloser, bytes) }

// bare is the JSON value that begins a line at the end of the body, after the
// last event, or nil.
func (t *tailReader) bare() []byte {
	rest := t.tail
	if i := bytes.LastIndex(rest, []byte("\ndata:")); i >= 0 {
		rest = rest[i+1:]
	}
	for {
		i := bytes.IndexAny(rest, "\r\n")
		if i < 0 || i+1 == len(rest) {
			return nil
		}
		rest = rest[i+1:]
		if rest[0] == '{' || rest[0] == '[' {
			return bytes.TrimSpace(rest)
		}
	}
}
