package inflight

import (
	"container/list"
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
// ceiling a new connection replaces the one that has idled longest. If none idles,
// the server accepts no other connection until one is closed, and callers wait in
// the system's queue; after three seconds the new connection is closed.
// A netutil.LimitListener would have callers wait until an idle connection times out,
// which may be minutes.
// Connections is safe for concurrent use; the zero value has no ceiling.
type Connections struct {
	limit atomic.Int64 // 0 for none

	mu     sync.Mutex
	open   map[net.Conn]*connection
	idle   list.List     // connections between two requests, the one that idles longest first
	silent list.List     // connections without a first byte, the oldest first
	change chan struct{} // closed when a connection is closed or idles; nil while no goroutine waits

	closedIdle, closedSilent, refused atomic.Uint64
}

// connection is one of the open connections.
type connection struct {
	conn  net.Conn
	since time.Time     // when it was let in
	in    *list.List    // nil for none
	place *list.Element // of in
}

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
	if !c.free() && !c.wait() {
		c.refused.Add(1)
		// Its server finds out when it reads.
		go conn.Close()
	}
	c.open[conn] = added
	added.since = time.Now() // not in moveTo, which each request calls twice
	added.moveTo(&c.silent)
}

// free reports whether there is a place. It holds c.mu.
func (c *Connections) free() bool {
	limit := c.limit.Load()
	return limit <= 0 || int64(len(c.open)) < limit
}

// wait waits for a place. If a connection can be closed it closes that one. It
// returns false if there is no place in time. It holds c.mu, except while it
// waits.
func (c *Connections) wait() bool {
	timer := time.NewTimer(acceptWait)
	defer timer.Stop()
	var evicted *connection
	for late := false; !c.free(); {
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
// has been silent for long, else nil. It holds c.mu.
func (c *Connections) evict() *connection {
	first, count := c.idle.Front(), &c.closedIdle
	if first == nil {
		first, count = c.silent.Front(), &c.closedSilent
		if first == nil || time.Since(first.Value.(*connection).since) < silence {
			return nil
		}
	}
	victim := first.Value.(*connection)
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

func (c *Connections) move(conn net.Conn, to *list.List) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if tracked := c.open[conn]; tracked != nil {
		tracked.moveTo(to)
		if to != nil {
			c.changed()
		}
	}
}

func (c *Connections) remove(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tracked := c.open[conn]
	if tracked == nil {
		return
	}
	tracked.moveTo(nil)
	delete(c.open, conn)
	c.changed()
}

// moveTo moves the connection to the end of a list, or out of its list if to is nil.
func (c *connection) moveTo(to *list.List) {
	if c.in != nil {
		c.in.Remove(c.place)
	}
	if c.in = to; to != nil {
		c.place = to.PushBack(c)
	}
}
