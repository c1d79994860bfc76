// Package buffers keeps large memory for the next request that needs it: fresh memory
// of a megabyte costs more than all that a request does with it. What is kept is
// bounded, and the garbage collector takes what was not used for a while.
package buffers

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
)

// The capacities of buffers that are kept, in bytes.
const (
	Smallest = 64 << 10
	Largest  = 8 << 20
)

const (
	// maxKept bounds all that is kept and not in use, in bytes.
	maxKept = 32 << 20
)

// kept is how many bytes all pools keep.
var kept atomic.Int64

// Pool keeps values of one type. The zero value is ready for use.
type Pool[T any] struct{ pool sync.Pool }

// item is a value in a pool. Its cleanup stops counting a value that the garbage
// collector takes out of the pool.
type item[T any] struct {
	value   T
	size    int64
	cleanup runtime.Cleanup
}

// Get takes a value out of the pool. It reports false where there is none.
func (p *Pool[T]) Get() (value T, ok bool) {
	it, ok := p.pool.Get().(*item[T])
	if !ok {
		return value, false
	}
	it.cleanup.Stop()
	kept.Add(-it.size)
	return it.value, true
}

// Put keeps a value that takes so many bytes, unless all pools keep as much as they
// may. The caller must not use it afterwards.
func (p *Pool[T]) Put(value T, size int) {
	n := int64(size)
	if kept.Add(n) > maxKept {
		kept.Add(-n)
		return
	}
	it := &item[T]{value: value, size: n}
	it.cleanup = runtime.AddCleanup(it, uncount, n)
	p.pool.Put(it)
}

func uncount(n int64) { kept.Add(-n) }

// classes are pools of buffers by their capacity: 64, 80, 96, 112, 128, 160, … KiB.
var classes [29]Pool[[]byte]

// class returns the class of the largest buffers that are no larger than capacity.
func class(capacity int) int {
	units := capacity / (Smallest / 4)
	double := bits.Len(uint(units)) - 3
	return 4*double + units>>double - 4
}

// least returns the capacity that the buffers of a class have at least.
func least(class int) int { return (4 + class%4) << (class / 4) * (Smallest / 4) }

// classFor returns the first class whose buffers all have room for so many bytes.
func classFor(size int) int {
	if size <= Smallest {
		return 0
	}
	return class(size-1) + 1
}

// Kept returns an empty buffer with room for so many bytes and less than twice as
// many, or nil where none is kept.
func Kept(size int) []byte {
	if size > Largest {
		return nil
	}
	first := classFor(size)
	for c := first; c < min(first+4, len(classes)); c++ {
		if b, ok := classes[c].Get(); ok {
			return b[:0]
		}
	}
	return nil
}

// made is how many bytes of large memory were made, because none was kept.
var made atomic.Int64

// Made returns how many bytes of large memory were made in all. What grew since the last
// garbage collection is about what it will find.
func Made() int64 { return made.Load() }

// Count counts memory that something else makes for a request, in bytes.
func Count(size int) {
	if size >= Smallest {
		made.Add(int64(size))
	}
}

// Get returns an empty buffer with room for so many bytes.
func Get(size int) []byte {
	if size < Smallest || size > Largest {
		Count(size)
		return make([]byte, 0, size)
	}
	if b := Kept(size); b != nil {
		return b
	}
	// Of the least capacity of its class, so that it is found by the next one.
	size = least(classFor(size))
	Count(size)
	return make([]byte, 0, size)
}

// Put keeps a buffer for a later call of Get, if it is one that is kept. The caller
// must not use its memory afterwards.
func Put(b []byte) {
	if cap(b) < Smallest || cap(b) > Largest {
		return
	}
	if Poisoned {
		b = b[:cap(b)]
		for i := range b {
			b[i] = Poison
		}
	}
	classes[class(cap(b))].Put(b[:0], cap(b))
}

// Poison is what memory in a pool is filled with where Poisoned is set: no byte of UTF-8.
const Poison = 0xff
