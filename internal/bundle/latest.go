package bundle

import "sync"

// Latest holds the newest good bundle of a workspace, for those who serve it. The zero value
// holds none. It is safe for concurrent use.
type Latest struct {
	mu     sync.Mutex
	bundle *Bundle
	next   chan struct{}
}

// Set makes b the newest bundle, and wakes whoever waits for another one. The bundle that is
// held already is no other one.
func (l *Latest) Set(b *Bundle) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bundle == b {
		return
	}
	l.bundle = b
	if l.next != nil {
		close(l.next)
		l.next = nil
	}
}

// Get returns the newest bundle, nil where there is none yet, and a channel that is closed
// when another one is set.
func (l *Latest) Get() (*Bundle, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next = make(chan struct{})
	}
	return l.bundle, l.next
}
