package trace

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"time"
)

// ID is a trace's id: a UUID of version 8, with this layout
// (https://www.rfc-editor.org/rfc/rfc9562#section-5.8):
//
//	48 bits  Unix time in milliseconds
//	 4 bits  version, 8
//	 3 bits  Kind
//	 9 bits  counter, high part: it starts at random in each millisecond
//	 2 bits  variant, binary 10
//	30 bits  counter, low part
//	32 bits  check, see [Authority]
//
// Ids of one kind from one Authority ascend in the order of their creation; ids of
// different kinds ascend by millisecond.
type ID [16]byte

const (
	counterBits = 39
	counterMask = 1<<counterBits - 1
	maxMillis   = 1<<48 - 1
	textLength  = 36
)

// newID returns an id with a check of zero.
func newID(millis int64, kind Kind, counter uint64) ID {
	var id ID
	high := uint64(millis)<<16 | 8<<12 | uint64(kind)<<9 | counter>>30&0x1ff
	low := 0b10<<62 | counter&(1<<30-1)<<32
	binary.BigEndian.PutUint64(id[:8], high)
	binary.BigEndian.PutUint64(id[8:], low)
	return id
}

// FirstID returns the lowest possible id of a trace at the time t. Ids that sort
// before it are of earlier traces.
func FirstID(t time.Time) ID {
	var id ID
	binary.BigEndian.PutUint64(id[:8], uint64(clampMillis(t.UnixMilli()))<<16)
	return id
}

func (id ID) millis() int64 { return int64(binary.BigEndian.Uint64(id[:8]) >> 16) }

func (id ID) counter() uint64 {
	return binary.BigEndian.Uint64(id[:8])&0x1ff<<30 | binary.BigEndian.Uint64(id[8:])>>32&(1<<30-1)
}

func clampMillis(ms int64) int64 { return min(max(ms, 0), maxMillis) }

// Time returns the creation time of the id, in milliseconds. It is meaningless for
// an id that was not verified.
func (id ID) Time() time.Time {
	return time.UnixMilli(id.millis())
}

// Kind returns the kind of the trace. It is meaningless for an id that was not
// verified.
func (id ID) Kind() Kind { return Kind(id[6] >> 1 & 0b111) }

// IDBytes returns the two possible values of the seventh byte of an id of the kind:
// its last bit belongs to the counter. A query selects a kind by this byte.
func (k Kind) IDBytes() (low, high byte) {
	low = 8<<4 | byte(k)<<1
	return low, low | 1
}

// isForm reports whether id has the version and variant of a trace id.
func (id ID) isForm() bool { return id[6]>>4 == 8 && id[8]>>6 == 0b10 }

// IsZero reports whether id is the zero value, which is no trace's id.
func (id ID) IsZero() bool { return id == ID{} }

// digitOffsets are the offsets of each byte's two digits in the 36-character form.
var digitOffsets = [len(ID{})]int{0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34}

// ParseID parses the 36-character form of a UUID, in upper or lower case. It accepts
// any UUID: use [Authority.Verify] to check that it is a trace id.
func ParseID[T string | []byte](text T) (ID, bool) {
	var id ID
	if len(text) != textLength || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return ID{}, false
	}
	for i, offset := range digitOffsets {
		high, low := hexDigit(text[offset]), hexDigit(text[offset+1])
		if high|low > 0xf {
			return ID{}, false
		}
		id[i] = high<<4 | low
	}
	return id, true
}

// hexDigit returns the value of a hexadecimal digit, 0xff for any other byte.
func hexDigit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 0xff
}

// AppendTo appends the id's 36-character form, in lower case.
func (id ID) AppendTo(dst []byte) []byte {
	dst = hex.AppendEncode(dst, id[:4])
	dst = hex.AppendEncode(append(dst, '-'), id[4:6])
	dst = hex.AppendEncode(append(dst, '-'), id[6:8])
	dst = hex.AppendEncode(append(dst, '-'), id[8:10])
	return hex.AppendEncode(append(dst, '-'), id[10:])
}

// AppendText implements [encoding.TextAppender]. It never fails.
func (id ID) AppendText(dst []byte) ([]byte, error) { return id.AppendTo(dst), nil }

// MarshalText implements [encoding.TextMarshaler]. It never fails.
func (id ID) MarshalText() ([]byte, error) { return id.AppendTo(make([]byte, 0, textLength)), nil }

// UnmarshalText implements [encoding.TextUnmarshaler] by ParseID.
func (id *ID) UnmarshalText(text []byte) error {
	parsed, ok := ParseID(text)
	if !ok {
		return errors.New("a trace id must be a UUID of 36 characters")
	}
	*id = parsed
	return nil
}

// String returns the id's 36-character form.
func (id ID) String() string {
	var text [textLength]byte
	return string(id.AppendTo(text[:0]))
}
