package invoke

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// clock is the context of an attempt without its budget. It ends when the caller's
// ends, or when one of the attempt's times is up: for the whole call, until the
// first content, or between two pieces. One timer serves all of them. It is not
// reset for each piece: when it fires, the clock looks at the time of the last piece
// and sets it again for the remainder.
//
// For example, a stream has 20 s until its first content and 30 s between pieces.
// The timer is set for 0:20. The first piece comes at 0:01, the next ones until
// 0:05. At 0:20 the provider has been silent for 15 s: the timer is set for 0:35,
// and ends the attempt then.
type clock struct {
	context.Context // that cancel ends
	cancel          context.CancelCauseFunc
	began           time.Time
	total           time.Time // the end of the call
	idle            time.Duration
	// silent is since when the provider has been waited for between two pieces, as
	// the time after began; negative while the caller takes a piece.
	silent atomic.Int64

	mu      sync.Mutex
	timer   *time.Timer
	rings   time.Time // when the timer fires
	limit   time.Time // for the first content, or the whole answer; zero for none
	cause   error     // with which the attempt ends at limit
	pieces  bool      // idle counts
	stopped bool      // the attempt has ended, or its time is up
}

// start begins an attempt, once for each clock. The attempt ends with cause
// after limit, unless limit is zero.
func (c *clock) start(parent context.Context, total time.Time, limit time.Duration, cause error) {
	c.began, c.total, c.cause = time.Now(), total, cause
	c.Context, c.cancel = context.WithCancelCause(parent)
	if limit > 0 {
		c.limit = c.began.Add(limit)
	}
	if !c.began.Before(total) {
		c.stopped = true
		c.cancel(errTotal)
		return
	}
	c.mu.Lock() // for timer, which ring uses
	defer c.mu.Unlock()
	c.rings, _ = c.next(c.began)
	c.timer = time.AfterFunc(c.rings.Sub(c.began), c.ring)
}

// Deadline returns the end of the call.
func (c *clock) Deadline() (time.Time, bool) {
	if earlier, ok := c.Context.Deadline(); ok && earlier.Before(c.total) {
		return earlier, true
	}
	return c.total, true
}

// next returns when the first of the attempt's times is up, and the cause with
// which the attempt ends then. The caller holds c.mu.
func (c *clock) next(now time.Time) (time.Time, error) {
	at, cause := c.total, errTotal
	if !c.limit.IsZero() && c.limit.Before(at) {
		at, cause = c.limit, c.cause
	}
	if c.pieces {
		since := now // the time that a slow caller takes is not the provider's
		if silent := c.silent.Load(); silent >= 0 {
			since = c.began.Add(time.Duration(silent))
		}
		if up := since.Add(c.idle); up.Before(at) {
			at, cause = up, errIdle
		}
	}
	return at, cause
}

// ring ends the attempt, or sets the timer for the remainder.
func (c *clock) ring() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if at := c.look(now); !c.stopped {
		c.set(now, at)
	}
}

// look ends the attempt if its time is up, and returns when it is.
func (c *clock) look(now time.Time) time.Time {
	at, cause := c.next(now)
	if !c.stopped && !now.Before(at) {
		c.stopped = true
		c.cancel(cause)
	}
	return at
}

func (c *clock) set(now, at time.Time) {
	c.rings = at
	c.timer.Reset(at.Sub(now))
}

// extend gives the attempt its full limit again, after a wait.
func (c *clock) extend(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.limit.IsZero() {
		c.limit = time.Now().Add(d)
	}
}

// content ends the limit: the first content is here. It returns false if the time is
// up.
func (c *clock) content() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.look(time.Now()) // the timer may be late
	c.limit = time.Time{}
	return !c.stopped
}

// follow begins the wait for further pieces.
func (c *clock) follow(idle time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.pieces, c.idle = true, idle
	c.silent.Store(int64(now.Sub(c.began)))
	if at, _ := c.next(now); !c.stopped && at.Before(c.rings) {
		c.set(now, at)
	}
}

// pause is called when the caller begins to take a piece, and resume when it has.
func (c *clock) pause()  { c.silent.Store(-1) }
func (c *clock) resume() { c.silent.Store(int64(time.Since(c.began))) }

// stop ends the attempt. It may be called again.
func (c *clock) stop() {
	c.mu.Lock()
	if !c.stopped {
		c.stopped = true
		c.timer.Stop()
	}
	c.mu.Unlock()
	c.cancel(nil)
}
