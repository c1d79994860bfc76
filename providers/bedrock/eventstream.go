package bedrock

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/aws/smithy-go/eventstream"

	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

const (
	// lengthsSize is the size of the head of a message, in bytes: its length and
	// that of its headers.
	lengthsSize = 8
	// maxHeaders bounds the headers of a message, in bytes, of which Bedrock's have a
	// hundred. The decoder looks through all headers before each one for its name.
	maxHeaders = 1 << 10
)

var errMessage = errors.New("a message of the stream is damaged")

// message is one message of an event stream. Its payload is valid until the next
// call of the reader.
type message struct {
	kind    string // :message-type: event, exception or error
	name    string // :event-type, :exception-type or :error-code
	text    string // :error-message
	payload []byte
}

// messageReader reads an event stream by AWS's own decoder, which verifies both
// checksums of a message but takes as much memory as a message says that it needs:
// the lengths are checked before.
// See https://docs.aws.amazon.com/AmazonS3/latest/API/RESTSelectObjectAppendix.html.
type messageReader struct {
	body    io.Reader
	buffer  *bufio.Reader // of body
	limit   int           // of a message, in bytes
	decoder *eventstream.Decoder
	payload []byte
	broken  error // of the body, within a message
	err     error // the end, once it was returned
}

func newMessageReader(body io.Reader, limit int) *messageReader {
	return &messageReader{body: body, buffer: bufio.NewReader(body), limit: limit, decoder: eventstream.NewDecoder()}
}

// Next returns the next message. The error is io.EOF at an end between two
// messages, io.ErrUnexpectedEOF at one within, upstream.ErrTooLarge over the
// limit, errMessage for a damaged message, or the body's own; it stays.
func (m *messageReader) Next() (message, error) {
	if m.err != nil {
		return message{}, m.err
	}
	var msg message
	msg, m.err = m.next()
	return msg, m.err
}

func (m *messageReader) next() (message, error) {
	total, err := m.length()
	if err == io.EOF && m.buffer.Buffered() > 0 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return message{}, err
	}
	// The decoder's buffer grows unless it has space for its last read.
	if size := total + bytes.MinRead; size > cap(m.payload) {
		if err := upstream.Hold(m.body, size-cap(m.payload)); err != nil {
			return message{}, err
		}
		m.payload = make([]byte, 0, size)
	}
	decoded, err := m.decoder.Decode(io.LimitReader(m, int64(total)), m.payload)
	switch {
	case m.broken == io.EOF:
		return message{}, io.ErrUnexpectedEOF
	case m.broken != nil:
		return message{}, m.broken
	case err != nil:
		return message{}, errMessage
	}
	msg := message{payload: decoded.Payload}
	for _, h := range decoded.Headers {
		if value, ok := h.Value.(eventstream.StringValue); ok {
			switch h.Name {
			case ":message-type":
				msg.kind = string(value)
			case ":event-type", ":exception-type", ":error-code":
				msg.name = string(value)
			case ":error-message":
				msg.text = string(value)
			}
		}
	}
	return msg, nil
}

// Read reads on in a message for the decoder, whose errors don't tell a damaged
// message from a body that breaks off.
func (m *messageReader) Read(p []byte) (n int, err error) {
	n, err = m.buffer.Read(p)
	m.broken = err
	return n, err
}

// length returns the length of the message that is next, in bytes.
func (m *messageReader) length() (int, error) {
	p, err := m.buffer.Peek(lengthsSize)
	if err != nil {
		return 0, err
	}
	total, headers := int64(binary.BigEndian.Uint32(p)), binary.BigEndian.Uint32(p[4:])
	if total > int64(m.limit) || headers > maxHeaders {
		return 0, upstream.ErrTooLarge
	}
	return int(total), nil
}

// Buffered reports whether a further message can be read without waiting.
func (m *messageReader) Buffered() bool {
	if m.err != nil || m.buffer.Buffered() < lengthsSize {
		return m.err != nil
	}
	total, err := m.length()
	return err != nil || m.buffer.Buffered() >= total
}

// Peek reads until there are bytes and returns the ones not consumed
// yet, for a caller that has to find out whether this is an event stream at all.
func (m *messageReader) Peek() ([]byte, error) {
	if _, err := m.buffer.Peek(1); err != nil {
		return nil, err
	}
	return m.buffer.Peek(m.buffer.Buffered())
}
