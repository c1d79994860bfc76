package bedrock

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// The framing of application/vnd.amazon.eventstream, all numbers big-endian:
//
//	total length   uint32  of the message, all of this included
//	headers length uint32
//	prelude CRC    uint32  CRC-32 (IEEE) of the eight bytes before it
//	headers
//	payload
//	message CRC    uint32  CRC-32 (IEEE) of all bytes before it
//
// A header is a name (its length in one byte), a type in one byte, and a
// value whose length the type says or that begins with it as a uint16.
const (
	preludeSize = 12
	crcSize     = 4
	// maxHeaders bounds the headers of a message, as the protocol does.
	maxHeaders = 128 << 10
)

// The types of header values.
const (
	valueTrue = iota
	valueFalse
	valueByte
	valueInt16
	valueInt32
	valueInt64
	valueBytes
	valueString
	valueTimestamp
	valueUUID
)

var (
	errChecksum = errors.New("the checksum of a message is wrong")
	errFraming  = errors.New("the lengths of a message contradict each other")
	errHeaders  = errors.New("the headers of a message cannot be read")
)

// message is one message of an event stream. Its slices are valid until the
// next call of the reader.
type message struct {
	kind    []byte // :message-type: event, exception or error
	name    []byte // :event-type, :exception-type or :error-code
	text    []byte // :error-message
	payload []byte
}

// messageReader reads an event stream. Both checksums of a message are
// verified before anything of it is used; the lengths in the prelude are not
// trusted before its own checksum is. It allocates nothing per message.
type messageReader struct {
	r     io.Reader
	limit int // of a message, in bytes
	buf   []byte
	start int // buf[start:end] is read but not consumed
	end   int
	err   error // of the reader, kept until the buffer is consumed
	fatal error // the end, once it was returned
}

const firstBuffer = 4 << 10

func newMessageReader(r io.Reader, limit int) *messageReader {
	return &messageReader{r: r, limit: limit, buf: make([]byte, min(firstBuffer, limit))}
}

// Next returns the next message. The error is io.EOF at an end between two
// messages, io.ErrUnexpectedEOF at one within, upstream.ErrTooLarge over the
// limit, or says what is broken; it stays.
func (m *messageReader) Next() (message, error) {
	if m.fatal != nil {
		return message{}, m.fatal
	}
	msg, err := m.next()
	if err != nil {
		m.fatal = err
	}
	return msg, err
}

func (m *messageReader) next() (message, error) {
	if err := m.need(preludeSize); err != nil {
		return message{}, err
	}
	total, headers, err := m.prelude()
	if err != nil {
		return message{}, err
	}
	if err := m.need(total); err != nil {
		return message{}, err
	}
	frame := m.buf[m.start : m.start+total]
	m.start += total
	if crc32.ChecksumIEEE(frame[:total-crcSize]) != binary.BigEndian.Uint32(frame[total-crcSize:]) {
		return message{}, errChecksum
	}
	msg := message{payload: frame[preludeSize+headers : total-crcSize]}
	return msg, msg.readHeaders(frame[preludeSize : preludeSize+headers])
}

// prelude returns the lengths of the message that is next.
func (m *messageReader) prelude() (total, headers int, err error) {
	p := m.buf[m.start : m.start+preludeSize]
	if crc32.ChecksumIEEE(p[:8]) != binary.BigEndian.Uint32(p[8:]) {
		return 0, 0, errChecksum
	}
	t, h := int64(binary.BigEndian.Uint32(p)), int64(binary.BigEndian.Uint32(p[4:]))
	switch {
	case t > int64(m.limit), h > maxHeaders:
		return 0, 0, upstream.ErrTooLarge
	case h+preludeSize+crcSize > t:
		return 0, 0, errFraming
	}
	return int(t), int(h), nil
}

// Buffered reports whether a further message, or the end of the stream, can be
// read without waiting.
func (m *messageReader) Buffered() bool {
	if m.err != nil || m.fatal != nil {
		return true
	}
	if m.end-m.start < preludeSize {
		return false
	}
	total, _, err := m.prelude()
	return err != nil || m.end-m.start >= total
}

// Peek reads on until something is there and returns what is not consumed
// yet, for a caller that has to find out whether this is an event stream at all.
func (m *messageReader) Peek() ([]byte, error) {
	err := m.need(1)
	return m.buf[m.start:m.end], err
}

// need reads on until n bytes are there.
func (m *messageReader) need(n int) error {
	if m.start+n > len(m.buf) {
		buf := m.buf
		if n > len(buf) {
			size := min(max(n, 2*len(buf)), m.limit)
			if err := upstream.Hold(m.r, size-len(buf)); err != nil {
				return err
			}
			buf = make([]byte, size)
		}
		copy(buf, m.buf[m.start:m.end])
		m.buf, m.start, m.end = buf, 0, m.end-m.start
	}
	for empty := 0; m.end-m.start < n; {
		if m.err != nil {
			if errors.Is(m.err, io.EOF) && m.end > m.start {
				return io.ErrUnexpectedEOF
			}
			return m.err
		}
		var got int
		got, m.err = m.r.Read(m.buf[m.end:])
		m.end += got
		if got > 0 {
			empty = 0
		} else if empty++; empty > 100 {
			m.err = io.ErrNoProgress
		}
	}
	return nil
}

// readHeaders picks the headers that say what the message is.
func (msg *message) readHeaders(b []byte) error {
	for len(b) > 0 {
		n := int(b[0])
		if len(b) < n+2 {
			return errHeaders
		}
		name, kind := b[1:n+1], b[n+1]
		b = b[n+2:]
		size := 0
		switch kind {
		case valueTrue, valueFalse:
		case valueByte:
			size = 1
		case valueInt16:
			size = 2
		case valueInt32:
			size = 4
		case valueInt64, valueTimestamp:
			size = 8
		case valueUUID:
			size = 16
		case valueBytes, valueString:
			if len(b) < 2 {
				return errHeaders
			}
			size = int(binary.BigEndian.Uint16(b))
			b = b[2:]
		default:
			return errHeaders
		}
		if len(b) < size {
			return errHeaders
		}
		value := b[:size]
		b = b[size:]
		if kind != valueString {
			continue
		}
		switch string(name) {
		case ":message-type":
			msg.kind = value
		case ":event-type", ":exception-type", ":error-code":
			msg.name = value
		case ":error-message":
			msg.text = value
		}
	}
	return nil
}
