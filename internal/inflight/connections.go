package inflight

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// acceptWait is the longest that a new connection waits for a place. A server
	// that stops waits for it, too.
	acceptWait = 3 * time.Second
	// silence is how long a connection may go without a first byte while others
	// wait for its place.
	silence = 5 * time.Second
)

// Connections bounds the connections of callers, so that enough descriptors remain
// for upstreams and files. A server reports its connections by State. At the
// ceiling a new connection replaces the one that has idled longest. Where none
// idles, the server accepts no other connection until one is closed, and callers
// wait in the system's queue; after three seconds the new connection is closed.
// Connections is safe for concurrent use; the zero value has no ceiling.
type Connections struct {
	limit atomic.Int64 // 0 for none

	mu     sync.Mutex
	open   map[net.Conn]*connection
	idle   queue         // of those between two requests
	silent queue         // of those without a first byte
	change chan struct{} // closed when a connection is closed or idles; nil while no goroutine waits

	closedIdle, closedSilent, refused atomic.Uint64
}

// connection is one of the open connections.
type connection struct {
	conn         net.Conn
	in           *queue    // nil for none
	since        time.Time // when it was let in
	before, next *connection
}

// queue holds connections in the order in which they came to it. It links them
// itself, so that no request allocates.
type queue struct{ first, last *connection }

// SetLimit sets how many connections may be open, and returns how many might before.
// It closes none.
func (c *Connections) SetLimit(n int) (before int) { return int(c.limit.Swap(int64(n))) }

// Closed returns how many connections were closed at the ceiling: because they
// idled, because they sent nothing, or because all others were busy.
func (c *Connections) Closed() (idle, silent, refused uint64) {
	return c.closedIdle.Load(), c.closedSilent.Load(), c.refused.Load()
}

// Open returns how many connections are open.
func (c *Connections) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// Scarce reports whether more than half of the connections that may be open are.
func (c *Connections) Scarce() bool {
	limit := c.limit.Load()
	return limit > 0 && 2*int64(c.Open()) > limit
}

// State is for http.Server.ConnState. With a new connection it returns once there
// is a place for it.
func (c *Connections) State(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		c.add(conn)
	case http.StateActive:
		c.move(conn, nil)
	case http.StateIdle:
		c.move(conn, &c.idle)
	case http.StateClosed, http.StateHijacked:
		c.remove(conn)
	}
}

func (c *Connections) add(conn net.Conn) {
	added := &connection{conn: conn}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = make(map[net.Conn]*connection)
	}
	if !c.room() && !c.wait() {
		c.refused.Add(1)
		// Its server finds out when it reads.
		go conn.Close()
	}
	c.open[conn] = added
	added.since = time.Now() // not in moveTo, which each request calls twice
	added.moveTo(&c.silent)
}

// room reports whether there is a place. It holds c.mu.
func (c *Connections) room() bool {
	limit := c.limit.Load()
	return limit <= 0 || int64(len(c.open)) < limit
}

// wait waits for a place. Where a connection can be closed it closes that. It
// returns false when there is no place in time. It holds c.mu, except while it
// waits.
func (c *Connections) wait() bool {
	timer := time.NewTimer(acceptWait)
	defer timer.Stop()
	var evicted *connection
	for late := false; !c.room(); {
		if late {
			return false
		}
		if evicted == nil || c.open[evicted.conn] != evicted {
			evicted = c.evict()
		}
		if c.change == nil {
			c.change = make(chan struct{})
		}
		change := c.change
		c.mu.Unlock()
		select {
		case <-change:
		case <-timer.C:
			late = true
		}
		c.mu.Lock()
	}
	return true
}

// evict closes and returns the connection that has idled longest, else one that
// has been silent for long; nil where there is neither. It holds c.mu.
func (c *Connections) evict() *connection {
	victim, count := c.idle.first, &c.closedIdle
	if victim == nil {
		victim, count = c.silent.first, &c.closedSilent
		if victim == nil || time.Since(victim.since) < silence {
			return nil
		}
	}
	victim.moveTo(nil)
	count.Add(1)
	// In the background, because TLS sends a last message, which may take long.
	go victim.conn.Close()
	return victim
}

// changed wakes the goroutines in wait. It holds c.mu.
func (c *Connections) changed() {
	if c.change != nil {
		close(c.change)
		c.change = nil
	}
}

func (c *Connections) move(conn net.Conn, to *queue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.open[conn]; known != nil {
		known.moveTo(to)
		if to != nil {
			c.changed()
		}
	}
}

func (c *Connections) remove(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.open[conn]
	if known == nil {
		return
	}
	known.moveTo(nil)
	delete(c.open, conn)
	c.changed()
}

// moveTo moves the connection to the end of a queue, or out of its queue where to
// is nil.
func (c *connection) moveTo(to *queue) {
	if from := c.in; from != nil {
		if c.before == nil {
			from.first = c.next
		} else {
			c.before.next = c.next
		}
		if c.next == nil {
			from.last = c.before
		} else {
			c.next.before = c.before
		}
	}
	c.in, c.before, c.next = to, nil, nil
	if to == nil {
		return
	}
	if c.before = to.last; c.before == nil {
		to.first = c
	} else {
		c.before.next = c
	}
	to.last = c
}
