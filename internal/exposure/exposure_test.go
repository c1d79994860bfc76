package exposure

import (
	"encoding/binary"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

func numbered(m *Memory, n int) (Key, *Exposure) {
	e := &Exposure{Request: &Request{Began: time.Now()}}
	binary.BigEndian.PutUint64(e.Trace[:], uint64(n)+1)
	return m.Key(e.Trace[:]), e
}

func TestWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		key, e := numbered(m, 1)
		find := func() *Exposure { return m.Find(key, time.Now().Add(-time.Hour)) }
		if find() != nil {
			t.Error("an exposure that was never entered")
		}
		m.Enter(key, e)
		if other, _ := numbered(m, 2); m.Find(other, time.Time{}) != nil {
			t.Error("the exposure of another key")
		}
		time.Sleep(time.Hour)
		if find() != e {
			t.Error("it is gone within its window")
		}
		time.Sleep(time.Nanosecond)
		if find() != nil {
			t.Error("it is there after its window")
		}
		key, next := numbered(m, 1)
		m.Enter(key, next)
		if find() != next {
			t.Error("the next one does not take its place")
		}
	})
}

// TestBounds: what is asked for stays, the rest falls out, and no generation is larger than
// its bound.
func TestBounds(t *testing.T) {
	t.Parallel()
	m := NewMemory()
	m.most = 8
	kept, e := numbered(m, 0)
	m.Enter(kept, e)
	first, other := numbered(m, 1)
	m.Enter(first, other)
	for n := 2; n < 10_000; n++ {
		m.Enter(numbered(m, n))
		if m.Find(kept, time.Time{}) != e {
			t.Fatalf("after %d others, one that each of them was followed by is gone", n)
		}
	}
	if m.Find(first, time.Time{}) != nil {
		t.Error("one that nobody asked for is still there")
	}
	for i := range m.shards {
		if s := &m.shards[i]; len(s.present) > m.most || len(s.old) > m.most {
			t.Errorf("%d and %d exposures of a shard, at most %d fit", len(s.present), len(s.old), m.most)
		}
	}
}

// TestCounts: whoever counts and takes at the same time, and in whatever minutes, no answer is
// lost, and each is counted in its minute.
func TestCounts(t *testing.T) {
	t.Parallel()
	const counters, each = 4, 5_000
	e := &Exposure{Trace: trace.ID{1}}
	var mu sync.Mutex
	sums := map[uint32]int{}
	keep := func(c Count) {
		mu.Lock()
		defer mu.Unlock()
		sums[c.Minute] += int(c.Answers)
	}
	var counting sync.WaitGroup
	for range counters {
		counting.Go(func() {
			for n := range each {
				minute := uint32(1 + n%2)
				if before := e.Count(minute, 1); before.Minute != minute {
					keep(before)
				}
				if n%64 == 0 {
					keep(e.Take())
				}
			}
		})
	}
	counting.Wait()
	last := e.Take()
	keep(last)
	if last.Trace != e.Trace {
		t.Errorf("a count of the trace %v", last.Trace)
	}
	if want := counters * each / 2; sums[1] != want || sums[2] != want || sums[0] != 0 {
		t.Errorf("%v, want %d in each of two minutes", sums, want)
	}
	if again := e.Take(); again.Answers != 0 {
		t.Errorf("%d answers are taken twice", again.Answers)
	}
}

func TestMinute(t *testing.T) {
	t.Parallel()
	if got := MinuteOf(time.Unix(120, 0)); got != 2 {
		t.Errorf("minute %d", got)
	}
	if got := MinuteOf(time.Unix(179, 999)); got != 2 {
		t.Errorf("minute %d", got)
	}
}

func BenchmarkFind(b *testing.B) {
	m := NewMemory()
	text := make([]byte, 100)
	m.Enter(m.Key(text), &Exposure{Request: &Request{Began: time.Now()}})
	since := time.Now().Add(-time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		m.Find(m.Key(text), since).Count(1, 1)
	}
}
