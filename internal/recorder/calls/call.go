package calls

import (
	"slices"
	"sync"

	large "github.com/cadenza-gateway/cadenza/internal/buffers"
	"github.com/cadenza-gateway/cadenza/internal/journal"
	"github.com/cadenza-gateway/cadenza/trace"
)

// Call is the start record of a call. What changes is under the lock of the File.
type Call struct {
	id     trace.ID
	size   int    // of the record
	short  int    // of the part without content
	begun  int64  // see File.Now
	text   []byte // nil: the journal has it
	kept   *[]byte
	places []journal.Place // the latest last
	copies int             // how often the journal was given the text
	ended  bool
}

// buffers hold texts of usual size.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// largestKept is the size, in bytes, of the largest buffer that is kept.
const largestKept = 16 << 10

// NewCall copies the members of a start record.
func NewCall(r *trace.Record) *Call {
	c := &Call{id: r.ID, kept: buffers.Get().(*[]byte)}
	text := slices.Grow((*c.kept)[:0], 1<<10)
	if size := len(r.Messages); size > largestKept {
		text = large.Get(size + size/8) // fresh memory, and its collection, cost more than the copy
	}
	c.text, c.short = appendRecord(text, r)
	if c.size = len(c.text); c.size > cap(text) {
		large.Count(c.size)
	}
	return c
}

// Size returns the call's size in the file, in bytes, rounded up to 1 KiB.
func (c *Call) Size() int64 { return (int64(c.size) + 1<<10 - 1) &^ (1<<10 - 1) }

// release gives the text up. Whether the journal may have yet to write it is unknown, so a
// text that it keeps is left to the garbage collector.
func (c *Call) release() {
	if c.kept != nil && cap(c.text) <= largestKept {
		*c.kept = c.text
		buffers.Put(c.kept)
	}
	c.text, c.kept = nil, nil
}

// place returns the place of the record in the journal. The lock of the File is
// held.
func (c *Call) place(j *journal.Journal) journal.Place {
	for _, p := range slices.Backward(c.places) {
		if j.Has(p) {
			return p
		}
	}
	return journal.Place{}
}
