package providers

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/cadenza-gateway/cadenza/internal/buffers"
)

// ErrNoRoom ends the reading of an answer for which there is no memory, because
// the answers that are being read hold as much as they may. It says nothing about
// the provider.
var ErrNoRoom = errors.New("the answers of upstreams that are being read hold as much memory as they may")

var errReleased = errors.New("the answer is closed")

const (
	// maxHeld bounds the memory that all answers of upstreams hold while they are
	// read, in bytes. It suffices for fifty of 200 KB at the same time, or for one
	// of the largest. An answer that is alone may hold more. Go takes about three
	// times as much from the system.
	maxHeld = 32 << 20
	// freeHeld is the memory that each answer may hold uncounted, in bytes.
	// Most answers never need more, so large ones do not keep them from being
	// read.
	freeHeld = 64 << 10
)

// held is the memory that the answers hold, each beyond freeHeld, in bytes.
var held atomic.Int64

// Held is the memory that one answer holds while it is read. The zero value
// holds nothing. It is safe for concurrent use.
type Held struct {
	mu       sync.Mutex
	bytes    int
	released bool
	lent     [][]byte
}

// Take takes further bytes; it is called before they are allocated. A negative
// number gives bytes back. The error is ErrNoRoom if there is no memory, and
// another one after Release.
func (h *Held) Take(bytes int) error {
	err := h.take(bytes)
	if err == nil && bytes > 0 {
		// An answer that grows leaves what it held before to the collector.
		buffers.Count(bytes)
		buffers.Collect(true)
	}
	return err
}

func (h *Held) take(bytes int) error {
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
	for _, b := range h.lent {
		buffers.Put(b)
	}
	h.lent = nil
}

// Lend has Release give a buffer back to package buffers. After Release it does nothing.
func (h *Held) Lend(buffer []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.released {
		h.lent = append(h.lent, buffer)
	}
}

func counted(bytes int) int64 { return int64(max(bytes-freeHeld, 0)) }

// HeldBytes returns the memory that all answers hold at present beyond the part
// that each has for free, in bytes.
func HeldBytes() int64 { return held.Load() }
