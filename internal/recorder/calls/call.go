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
	ended  bool
}

// buffers hold texts of usual size.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// largestKept is the size, in bytes, of the largest buffer that is kept.
const largestKept = 16 << 10

// NewCall copies the members of a start record.
func NewCall(r *trace.Record) *Call {
	kept := buffers.Get().(*[]byte)
	c := &Call{id: r.ID, kept: kept}
	c.text, c.short = appendRecord(slices.Grow((*kept)[:0], 1<<10), r)
	c.size = len(c.text)
	if c.size > largestKept {
		large.Count(c.size)
	}
	return c
}

// Size returns the call's size in the file, in bytes, rounded up to 1 KiB.
func (c *Call) Size() int64 { return (int64(c.size) + 1<<10 - 1) &^ (1<<10 - 1) }

// release gives the text up.
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
