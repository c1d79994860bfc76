package providers

import (
	"errors"
	"sync"
	"sync/atomic"
)

// ErrNoRoom ends the reading of an answer for which there is no memory: what all
// upstreams have sent and nobody has taken yet holds as much as it may. It says
// nothing about the provider.
var ErrNoRoom = errors.New("the answers of upstreams that are being read hold as much memory as they may")

var errReleased = errors.New("the answer is closed")

const (
	// maxHeld bounds the memory that answers of upstreams hold together while they
	// are read, in bytes. It has room for fifty of 200 KB that arrive at the same
	// time, or for one of the largest; one that is alone may have more. Go takes
	// some three times as much from the system.
	maxHeld = 32 << 20
	// freeHeld is what each answer may hold besides, in bytes. Usual ones never
	// need more, so they are read whatever others do.
	freeHeld = 64 << 10
)

// held is what all answers hold beyond freeHeld each.
var held atomic.Int64

// Held is the memory that one answer holds while it is read. The zero value
// holds nothing. It is safe for concurrent use.
type Held struct {
	mu       sync.Mutex
	bytes    int
	released bool
}

// Take takes bytes more, before they are allocated; less than zero gives back.
// The error is ErrNoRoom where there are none, and another one after Release.
func (h *Held) Take(bytes int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released {
		return errReleased
	}
	own := counted(h.bytes + bytes)
	more := own - counted(h.bytes)
	if all := held.Add(more); more > 0 && all > maxHeld && all > own {
		held.Add(-more)
		return ErrNoRoom
	}
	h.bytes += bytes
	return nil
}

// Release gives everything back. It may be called again.
func (h *Held) Release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	held.Add(-counted(h.bytes))
	h.bytes, h.released = 0, true
}

func counted(bytes int) int64 { return int64(max(bytes-freeHeld, 0)) }

// HeldBytes is the memory, in bytes, that all answers hold at present, beyond
// what each has for free.
func HeldBytes() int64 { return held.Load() }
