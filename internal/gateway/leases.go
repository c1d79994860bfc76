package gateway

import (
	"sync"
	"sync/atomic"
	"time"
)

// drainTimeout bounds how long a shared resource waits for the requests that
// still use it.
const drainTimeout = 10 * time.Second

// leases counts the requests that use a shared resource. Caddy cleans up a
// configuration while its requests still run; the resource is closed when the
// last of them has ended.
type leases struct {
	count atomic.Int64 // one of them is the owner's
	idle  chan struct{}
	once  sync.Once
}

func newLeases() *leases {
	l := &leases{idle: make(chan struct{})}
	l.count.Store(1)
	return l
}

func (l *leases) acquire() { l.count.Add(1) }

func (l *leases) release() {
	if l.count.Add(-1) == 0 {
		l.once.Do(func() { close(l.idle) })
	}
}

// drain releases the owner's lease and waits for the others, for at most
// drainTimeout.
func (l *leases) drain() {
	l.release()
	select {
	case <-l.idle:
	case <-time.After(drainTimeout):
	}
}
