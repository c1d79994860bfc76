package recorder

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/exposure"
)

// maxPastCounts is how many counts of minutes that are over wait for the store. Beyond
// them, answers count in the minute in which their trace is next asked for.
const maxPastCounts = 1 << 20

// Count is how many answers were counted on a stored trace in a minute.
type Count struct {
	exposure.Count
	Workspace string
}

// counts holds the exposures on which answers were counted that wait for the writer. They
// are apart from the queue: a count is never dropped while the store is away, and there are
// no more exposures than the gateway remembers.
type counts struct {
	some    atomic.Bool // whether any wait
	mu      sync.Mutex
	waiting []*exposure.Exposure
	past    []Count // of minutes that were over before the writer came
}

// Counted counts an answer on the trace of an exposure, at a time.
func (r *Recorder) Counted(e *exposure.Exposure, at time.Time) {
	minute := exposure.MinuteOf(at)
	for answers := uint32(1); ; {
		before := e.Count(minute, answers)
		if before.Answers > 0 && before.Minute == minute {
			return
		}
		kept, first := r.queue.counts.add(e, before)
		if first {
			r.signal()
		}
		if kept {
			return
		}
		answers = before.Answers
	}
}

// add keeps what was pending before an answer was counted, or that something is pending
// since. It keeps no more than maxPastCounts. first reports whether nothing waited before.
func (c *counts) add(e *exposure.Exposure, before exposure.Count) (kept, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case before.Answers == 0:
		c.waiting = append(c.waiting, e)
		c.some.Store(true)
		return true, len(c.waiting) == 1
	case len(c.past) >= maxPastCounts:
		return false, false
	}
	c.past = append(c.past, Count{before, e.Workspace})
	return true, false
}

// take appends all that wait.
func (c *counts) take(to []Count) []Count {
	c.mu.Lock()
	defer c.mu.Unlock()
	to = append(to, c.past...)
	c.past = nil
	for i, e := range c.waiting {
		if taken := e.Take(); taken.Answers > 0 {
			to = append(to, Count{taken, e.Workspace})
		}
		c.waiting[i] = nil
	}
	c.waiting = c.waiting[:0]
	c.some.Store(false)
	return to
}

// epochs counts the epochs of all recorders.
var epochs atomic.Uint64

// Forget begins another epoch: traces that were recorded before may be gone.
func (r *Recorder) Forget() { r.epoch.Store(epochs.Add(1)) }

// Epoch returns a number that no other recorder has, and that changes when another store
// takes the place of the one with the traces so far. Counts on those are lost.
func (r *Recorder) Epoch() uint64 { return r.epoch.Load() }
