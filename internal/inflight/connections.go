package inflight

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// acceptWait is the longest that a connection waits for a place. A server
	// that is told to stop waits for it, too.
	acceptWait = 3 * time.Second
	// silence is how long a connection may go without a first byte while others
	// wait for its place.
	silence = 5 * time.Second
)

// Connections bounds the connections of callers, so that the descriptors that
// are set aside for upstreams and files are there. A server tells it of its
// connections by State. At the ceiling the connection that has idled longest is
// closed for a new one; where none idles the server accepts no other before one
// is closed, and those who wish to connect wait in the system's queue, for
// three seconds at most: then the new one is closed. It is safe for concurrent use; the
// zero value has no ceiling.
type Connections struct {
	limit atomic.Int64 // 0 for none

	mu     sync.Mutex
	open   map[net.Conn]*connection
	idle   queue         // of those between two requests
	silent queue         // of those without a first byte
	change chan struct{} // closed when one is closed or idles; nil while nobody waits

	closedIdle, closedSilent, refused atomic.Uint64
}

// connection is one of the open connections.
type connection struct {
	conn         net.Conn
	in           *queue    // nil for none
	since        time.Time // when it came there
	before, next *connection
}

// queue is connections by the time since which they are in it. It links them
// itself, so that no request allocates.
type queue struct{ first, last *connection }

// SetLimit sets how many connections may be open. Those that are stay.
func (c *Connections) SetLimit(n int) { c.limit.Store(int64(n)) }

// Closed is how many connections were closed at the ceiling: because they idled,
// said nothing, or were new while all others were busy.
func (c *Connections) Closed() (idle, silent, refused uint64) {
	return c.closedIdle.Load(), c.closedSilent.Load(), c.refused.Load()
}

// Open is how many connections are open.
func (c *Connections) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// State is the ConnState of a server. With a new connection it returns once
// there is a place for it.
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
	added.moveTo(&c.silent)
}

// room reports whether there is a place. It holds c.mu.
func (c *Connections) room() bool {
	limit := c.limit.Load()
	return limit <= 0 || int64(len(c.open)) < limit
}

// wait waits for a place, and has one made where a connection can be closed for
// it. It is false when there is none in time. It holds c.mu, but not while it
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

// evict closes the connection that can best be done without, and returns it; nil
// where there is none. It holds c.mu.
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
	// TLS says goodbye, which may take its time.
	go victim.conn.Close()
	return victim
}

// changed wakes who waits. It holds c.mu.
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

// moveTo puts the connection at the end of a queue, nil for none.
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
	c.since = time.Now()
	if c.before = to.last; c.before == nil {
		to.first = c
	} else {
		c.before.next = c
	}
	to.last = c
}
