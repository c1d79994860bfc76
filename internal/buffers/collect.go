package buffers

import (
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Garbage is how many bytes of large memory are made until what is no longer used is
// collected and given back to the system. By itself the collector waits until the heap has
// doubled, which after a few of the largest requests or answers is several times what they
// held. Memory that is kept for the next request is not made again.
const Garbage = 24 << 20

// collected is what Made was when the last collection began. Who collects holds collecting.
var (
	collected  atomic.Int64
	collecting sync.Mutex
)

// Collect has what nobody uses any more collected, once Garbage bytes were made since the
// last time. A caller that is about to make more waits where twice as much was made: else
// those who follow a group of callers that is answered at once make as much again before the
// collector has found what the group left.
func Collect(wait bool) {
	switch n := uncollected(); {
	case wait && n >= 2*Garbage:
		collecting.Lock()
		if uncollected() < Garbage { // somebody else has collected meanwhile
			collecting.Unlock()
			return
		}
		collect()
	case n >= Garbage && collecting.TryLock():
		go collect()
	}
}

// uncollected returns how many bytes were made since the last collection began.
func uncollected() int64 { return Made() - collected.Load() }

// collect collects, and unlocks collecting.
func collect() {
	defer collecting.Unlock()
	n := Made()
	debug.FreeOSMemory()
	collected.Store(n)
}
