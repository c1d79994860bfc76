package gateway

import (
	"cmp"
	"sync"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
)

// commits wakes the goroutines that wait for the next commit of a store or the next call.
type commits struct {
	mu   sync.Mutex
	next chan struct{} // nil: no one waits
}

// wait returns a channel that the next commit or call closes.
func (c *commits) wait() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.next
}

// committed is called after each commit.
func (c *commits) committed(commit recorder.Commit) {
	if commit.Err == nil {
		c.wake()
	}
}

// wake is called with each call that begins.
func (c *commits) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

// Committed returns a channel that the next commit, or the next call that begins,
// closes.
func (s *Store) Committed() <-chan struct{} { return s.commits.wait() }

// Waiting returns how many records wait to be stored, and why the store takes
// none. The reason is empty while it does.
func (s *Store) Waiting() (records int, reason string) {
	stats := s.Recorder.Stats()
	if stats.Availability == recorder.Available {
		return 0, ""
	}
	return stats.Queued, cmp.Or(stats.LastError, "it is "+stats.Availability.String())
}
