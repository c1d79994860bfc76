package calls

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/cadenza-gateway/cadenza/trace"
)

// Call is the start record of a call.
type Call struct {
	id      trace.ID
	size    int    // in the file, with the header
	short   int    // the part without content
	begun   int64  // see File.Now
	slot    int    // the first; 0: none yet
	writing bool   // a goroutine writes
	ended   bool   // the end was stored while it was being written
	given   bool   // up, while it was being written
	text    []byte // nil once it is written
	kept    *[]byte
}

// buffers hold texts of usual size.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// largestKept is the size, in bytes, of the largest buffer that is kept.
const largestKept = 16 << 10

// NewCall copies what a start record has.
func NewCall(r *trace.Record) *Call {
	kept := buffers.Get().(*[]byte)
	c := &Call{id: r.ID, kept: kept, text: slices.Grow((*kept)[:0], slotSize)[:headerSize]}
	c.text, c.short = appendRecord(c.text, r)
	c.size = len(c.text)
	copy(c.text, recordMark[:])
	binary.LittleEndian.PutUint32(c.text[4:], uint32(c.size-headerSize))
	return c
}

// Size returns what the call takes in the file, in bytes.
func (c *Call) Size() int64 { return int64(c.slots()) * slotSize }

func (c *Call) slots() int { return slotsOf(c.size) }

func slotsOf(size int) int { return (size + slotSize - 1) / slotSize }

// release gives the text up.
func (c *Call) release() {
	if cap(c.text) <= largestKept {
		*c.kept = c.text
		buffers.Put(c.kept)
	}
	c.text, c.kept = nil, nil
}

// sum is the sum of a record at a slot. Content that looks like a record is none:
// the seed is not known outside.
func sum(seed uint64, slot int, text []byte) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(seed + uint64(slot))
	_, _ = d.Write(text)
	return d.Sum64()
}
