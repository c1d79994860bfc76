package upstream

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"
)

// ErrTooLarge is a line, an event or a body beyond its limit.
var ErrTooLarge = errors.New("larger than the limit")

// Event is one server-sent event. Its slices are valid until the next call of
// the reader.
type Event struct {
	Name []byte // the event field, or empty
	Data []byte // the data fields, joined by line feeds
	// Whole means that there are no events: Data is the whole answer, see
	// EventAnswer.
	Whole bool
}

// EventReader reads a stream of server-sent events as the WHATWG HTML standard
// defines it (https://html.spec.whatwg.org/multipage/server-sent-events.html):
// lines end in CRLF, LF or CR, a byte order mark may come first, comments and
// unknown fields are skipped, several data fields make one event. It differs in
// one point: an event at the clean end of the stream is returned even without a
// blank line after it, because providers forget that line. A reader that needs
// completeness looks at the data. It allocates nothing per event.
type EventReader struct {
	r     io.Reader
	limit int
	buf   []byte // buf[start:end] is read but not consumed
	start int
	end   int
	err   error // of the reader, kept until the buffer is consumed

	scanned int  // how much of buf[start:end] holds no line end
	begun   bool // past the byte order mark
	skipLF  bool // the last line ended in CR: a LF that follows belongs to it

	data  []byte
	name  []byte
	some  bool // a data field of the present event was seen
	clear bool // the event was returned: drop it first
}

// firstBuffer is how much a reader reads at a time, in bytes, until a line is longer.
const firstBuffer = 4 << 10

var firstBuffers = sync.Pool{New: func() any { return new([firstBuffer]byte) }}

// NewEventReader reads events from r. limit bounds a line and an event's data,
// in bytes.
func NewEventReader(r io.Reader, limit int) *EventReader {
	return &EventReader{r: r, limit: limit, buf: firstBuffers.Get().(*[firstBuffer]byte)[:min(firstBuffer, limit)]}
}

// release gives the buffer back, unless it has grown. Events that the reader returned
// before is no longer valid, and it must not be used again.
func (e *EventReader) release() {
	if cap(e.buf) == firstBuffer {
		firstBuffers.Put((*[firstBuffer]byte)(e.buf[:firstBuffer]))
	}
	e.buf, e.start, e.end, e.err = nil, 0, 0, errClosed
}

// Next returns the next event that has data. The error is io.EOF at the end,
// ErrTooLarge over the limit, providers.ErrNoRoom if there is no memory for
// more, or the reader's own; it stays.
func (e *EventReader) Next() (Event, error) {
	if err := e.next(); err != nil {
		return Event{}, err
	}
	return Event{Name: e.name, Data: e.data}, nil
}

// next reads the next event into name and data.
func (e *EventReader) next() error {
	if e.clear {
		e.reset()
	}
	for {
		line, ok := e.line()
		if !ok {
			if err := e.fill(); err != nil {
				return e.last(err)
			}
			continue
		}
		done, err := e.take(line)
		if err != nil {
			e.err, e.start, e.end = err, 0, 0
			return err
		}
		if done {
			e.clear = true
			return nil
		}
	}
}

// Peek reads on until something other than white space is there and returns
// the bytes not consumed yet, for a caller that has to find out whether this is
// a stream of events at all. It is valid until the next call of the reader.
func (e *EventReader) Peek() ([]byte, error) {
	for {
		head := e.buf[e.start:e.end]
		if len(head) >= len(byteOrderMark) || !bytes.HasPrefix(byteOrderMark, head) {
			if len(bytes.TrimLeft(bytes.TrimPrefix(head, byteOrderMark), " \t\r\n")) > 0 {
				return head, nil
			}
		}
		if err := e.fill(); err != nil {
			return head, err
		}
	}
}

// last reads the event at the end of the stream without a blank line.
func (e *EventReader) last(err error) error {
	if err != io.EOF {
		return err
	}
	if e.end > e.start {
		line := e.buf[e.start:e.end]
		e.start, e.end, e.scanned = 0, 0, 0
		if _, err := e.take(e.withoutMark(line)); err != nil {
			e.err = err
			return err
		}
	}
	if !e.some {
		return err
	}
	e.clear = true
	return nil
}

func (e *EventReader) reset() {
	e.data, e.name = e.data[:0], e.name[:0]
	e.some, e.clear = false, false
}

// Buffered reports whether a further event, or the end of the stream, can be
// read without waiting.
func (e *EventReader) Buffered() bool {
	rest := e.buf[e.start:e.end]
	if e.err != nil {
		return true
	}
	// An event ends at a blank line: two line ends in a row. The search may
	// find one that ends a comment; then Next would read on and wait. So only
	// blocks that hold a data field count.
	if e.skipLF && len(rest) > 0 && rest[0] == '\n' {
		rest = rest[1:]
	}
	data := e.some && !e.clear
	for len(rest) > 0 {
		n := lineEnd(rest)
		if n < 0 {
			return false
		}
		line := rest[:n]
		if rest[n] == '\r' && n+1 < len(rest) && rest[n+1] == '\n' {
			n++
		}
		rest = rest[n+1:]
		if len(line) == 0 {
			if data {
				return true
			}
			continue
		}
		if field, _ := cut(line); string(field) == "data" {
			data = true
		}
	}
	return false
}

// line returns the next whole line without its end.
func (e *EventReader) line() ([]byte, bool) {
	if e.skipLF && e.end > e.start {
		e.skipLF = false
		if e.buf[e.start] == '\n' {
			e.start++
		}
	}
	if !e.begun && e.end-e.start < 3 && bytes.HasPrefix(byteOrderMark, e.buf[e.start:e.end]) {
		return nil, false
	}
	rest := e.buf[e.start:e.end]
	i := lineEnd(rest[e.scanned:])
	if i < 0 {
		e.scanned = len(rest)
		return nil, false
	}
	e.skipLF = rest[e.scanned+i] == '\r'
	line := rest[:e.scanned+i]
	e.start += e.scanned + i + 1
	e.scanned = 0
	return e.withoutMark(line), true
}

// lineEnd is the index of the first CR or LF, -1 when there is none.
func lineEnd(b []byte) int {
	i := bytes.IndexByte(b, '\n')
	if i >= 0 {
		b = b[:i]
	}
	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}
	return i
}

var byteOrderMark = []byte("\xef\xbb\xbf")

func (e *EventReader) withoutMark(line []byte) []byte {
	if e.begun {
		return line
	}
	e.begun = true
	return bytes.TrimPrefix(line, byteOrderMark)
}

// fill reads more.
func (e *EventReader) fill() error {
	if e.err != nil {
		return e.err
	}
	if e.start > 0 {
		copy(e.buf, e.buf[e.start:e.end])
		e.start, e.end = 0, e.end-e.start
	}
	if e.end == len(e.buf) {
		if len(e.buf) >= e.limit {
			e.err = ErrTooLarge
			return e.err
		}
		size := min(2*len(e.buf), e.limit)
		if err := Hold(e.r, size-len(e.buf)); err != nil {
			e.err = err
			return err
		}
		grown := make([]byte, size)
		copy(grown, e.buf[:e.end])
		e.buf = grown
	}
	for range 100 {
		var n int
		n, e.err = e.r.Read(e.buf[e.end:])
		e.end += n
		if n > 0 {
			return nil
		}
		if e.err != nil {
			return e.err
		}
	}
	e.err = io.ErrNoProgress
	return e.err
}

// take takes in one line and reports whether it completes an event.
func (e *EventReader) take(line []byte) (bool, error) {
	if len(line) == 0 {
		if e.some {
			return true, nil
		}
		e.name = e.name[:0]
		return false, nil
	}
	field, value := cut(line)
	switch string(field) {
	case "data":
		if len(e.data)+len(value)+1 > e.limit {
			return false, ErrTooLarge
		}
		if err := e.grow(&e.data, len(value)+1); err != nil {
			return false, err
		}
		if e.some {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, value...)
		e.some = true
	case "event":
		e.name = e.name[:0]
		if err := e.grow(&e.name, len(value)); err != nil {
			return false, err
		}
		e.name = append(e.name, value...)
	}
	return false, nil
}

// grow makes place in b for so many bytes more.
func (e *EventReader) grow(b *[]byte, bytes int) error {
	need := len(*b) + bytes
	if need <= cap(*b) {
		return nil
	}
	size := max(need, min(2*cap(*b), e.limit))
	if err := Hold(e.r, size-cap(*b)); err != nil {
		return err
	}
	*b = slices.Grow(*b, size-len(*b))
	return nil
}

// cut splits a line into field and value. A comment has an empty field.
func cut(line []byte) (field, value []byte) {
	field, value, found := bytes.Cut(line, colon)
	if found && len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	return field, value
}

var colon = []byte(":")
