// Package exposure remembers which answers were recorded, so that further ones of the same
// are counted on those instead of being recorded again. Its memory is bounded: what it
// forgets is recorded anew.
package exposure

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// maxExposures is how many exposures each of two generations has at most. Both
	// together take some 60 MB.
	maxExposures = 1 << 18

	shards = 64
)

// Key stands for what makes answers the same: the definition, its version, the row and the
// arm that answered, the caller and the unit. It is a hash under a seed of the process.
type Key [2]uint64

// Request is the request whose answers were recorded.
type Request struct {
	Workspace string
	Decision  trace.ID
	Began     time.Time
	Keys      uint64 // the hash of the definitions that it asked for
}

// Exposure is an answer that was recorded, with the count of further ones.
type Exposure struct {
	*Request
	Trace trace.ID

	// pending are the answers that were counted in a minute and not taken yet: the minute,
	// since 1970, and in the low 32 bits their number.
	pending atomic.Uint64
}

// Count is how many answers were counted on a trace in a minute.
type Count struct {
	Trace   trace.ID
	Minute  uint32 // since 1970
	Answers uint32
}

// MinuteOf returns the minute of a time, since 1970.
func MinuteOf(t time.Time) uint32 { return uint32(t.Unix() / 60) }

// Count counts answers of a minute, and returns what was pending before. If that is of
// another minute, the caller has to keep it.
func (e *Exposure) Count(minute, answers uint32) (before Count) {
	for {
		pending := e.pending.Load()
		next := uint64(minute)<<32 | uint64(answers)
		if uint32(pending>>32) == minute {
			next = pending + uint64(answers)
		}
		if e.pending.CompareAndSwap(pending, next) {
			return e.count(pending)
		}
	}
}

// Take returns what is pending, which is no more afterwards.
func (e *Exposure) Take() Count { return e.count(e.pending.Swap(0)) }

func (e *Exposure) count(pending uint64) Count {
	return Count{e.Trace, uint32(pending >> 32), uint32(pending)}
}

// Memory has the exposures of a workspace. Its methods may be called concurrently.
type Memory struct {
	seeds  [2]maphash.Seed
	most   int // exposures of a generation of a shard
	shards [shards]shard
}

// shard is a part of the memory, in two generations: a full one becomes the old one, whose
// place the next takes. What is asked for meanwhile moves to the present one.
type shard struct {
	mu           sync.Mutex
	present, old map[Key]*Exposure
}

// NewMemory returns an empty memory.
func NewMemory() *Memory {
	return &Memory{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, most: maxExposures / shards}
}

// Key returns the key of a text.
func (m *Memory) Key(text []byte) Key {
	return Key{maphash.Bytes(m.seeds[0], text), maphash.Bytes(m.seeds[1], text)}
}

func (m *Memory) shard(key Key) *shard { return &m.shards[key[0]%shards] }

// Find returns the exposure of a key, nil if there is none or its request began before
// since.
func (m *Memory) Find(key Key, since time.Time) *Exposure {
	s := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.present[key]
	if e == nil {
		if e = s.old[key]; e == nil {
			return nil
		}
		s.put(key, e, m.most)
	}
	if e.Began.Before(since) {
		return nil
	}
	return e
}

// Enter remembers an exposure, in place of an earlier one of its key.
func (m *Memory) Enter(key Key, e *Exposure) {
	s := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(key, e, m.most)
}

func (s *shard) put(key Key, e *Exposure, most int) {
	if len(s.present) >= most {
		s.present, s.old = nil, s.present
	}
	if s.present == nil {
		s.present = make(map[Key]*Exposure)
	}
	s.present[key] = e
}
