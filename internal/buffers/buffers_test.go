package buffers

import (
	"bytes"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestClasses(t *testing.T) {
	last := -1
	for capacity := Smallest; capacity <= Largest; capacity += 1 << 10 {
		c := class(capacity)
		if c < last || c > last+1 {
			t.Fatalf("%d bytes are of class %d after %d", capacity, c, last)
		}
		last = c
		if least(c) > capacity || least(classFor(capacity)) < capacity || classFor(least(c)) != c {
			t.Fatalf("%d bytes are of class %d from %d on, and found from class %d on", capacity, c, least(c), classFor(capacity))
		}
	}
	if last != len(classes)-1 {
		t.Errorf("the last class is %d of %d", last, len(classes))
	}
}

// TestRoom has each size find buffers that are large enough and no others.
func TestRoom(t *testing.T) {
	drain()
	for _, c := range []struct {
		size, capacity int
		found          bool
	}{
		{Smallest, Smallest, true},
		{Smallest + 1, Smallest, false},
		{Smallest + 1, 80 << 10, true},
		{1 << 20, 1<<20 + 5, true},
		{1<<20 + 6, 1<<20 + 5, false},
		{1 << 20, 1<<20 - 1, false},
		{1 << 20, 2<<20 - 1, true},
		{1 << 20, 2 << 20, false},
		{Largest, Largest, true},
		{Largest + 1, Largest, false},
		{Smallest, Smallest - 1, false},
		{Largest, Largest + 1, false},
		{10, Smallest, true},
	} {
		found := false
		for range 50 { // with the race detector a sync.Pool forgets some
			Put(make([]byte, 7, c.capacity))
			b := Kept(c.size)
			if found = b != nil; found {
				if len(b) != 0 || cap(b) < c.size {
					t.Errorf("a buffer for %d bytes has %d of %d", c.size, len(b), cap(b))
				}
				break
			}
		}
		if found != c.found {
			t.Errorf("%d bytes in a buffer of %d: found %t", c.size, c.capacity, found)
		}
		drain()
	}
	for _, size := range []int{0, 1, Smallest, Largest, Largest + 1} {
		if b := Get(size); len(b) != 0 || cap(b) < size {
			t.Errorf("a buffer for %d bytes has %d of %d", size, len(b), cap(b))
		}
	}
}

// drain empties all pools. A pool keeps what another processor has put into it from
// those that ask, but not through two collections.
func drain() {
	for range 2 {
		runtime.GC()
	}
}

func TestKeptIsBounded(t *testing.T) {
	settled(t)
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for range 3 * maxKept / Largest {
		Put(make([]byte, Largest))
		if n := kept.Load(); n > maxKept {
			t.Fatalf("%d bytes are kept", n)
		}
	}
	if n := kept.Load(); n != maxKept && !Poisoned {
		t.Errorf("%d bytes are kept, want %d", n, maxKept)
	}
	settled(t) // the garbage collector has taken all of it, and it does not count
}

// settled waits until the garbage collector has taken all that is kept.
func settled(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); kept.Load() != 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are still kept", kept.Load())
		}
		runtime.GC()
		time.Sleep(time.Millisecond) // cleanups have a goroutine of their own
	}
}

// TestPoison proves that tests with the race detector notice a use after Put.
func TestPoison(t *testing.T) {
	b := append(Get(Smallest), "of a request"...)
	Put(b)
	if poisoned := bytes.Count(b, []byte{Poison}) == len(b); poisoned != Poisoned {
		t.Errorf("the memory is poisoned: %t", poisoned)
	}
}

// TestMade has memory count when it is made, and not when it comes back. With the race
// detector a pool loses some of what it keeps.
func TestMade(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	came := false
	for range 100 {
		first := Get(Smallest)[:1]
		Put(first)
		before := Made()
		second := Get(Smallest)[:1]
		made := Made() - before
		if &first[0] == &second[0] {
			came = true
			second = nil
		}
		if made != int64(cap(second)) {
			t.Fatalf("%d bytes were made, want %d", made, cap(second))
		}
	}
	if !came {
		t.Error("no memory came back")
	}
	before := Made()
	Count(Smallest - 1)
	if Count(Largest); Made()-before != Largest {
		t.Errorf("another's memory counts as %d bytes, want %d", Made()-before, Largest)
	}
}
