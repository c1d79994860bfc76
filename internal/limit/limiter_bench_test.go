package limit

import (
	"fmt"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/journal"
)

// benched are limits that never refuse.
var benched = []*Limit{
	limitOf("a", Ceiling{Money, 1 << 60, Window{24 * time.Hour}}),
	limitOf("b", Ceiling{Requests, 1 << 60, Window{time.Minute}}, Ceiling{Tokens, 1 << 60, Window{time.Minute}}, Ceiling{Money, 1 << 60, Month}, Ceiling{InFlight, 1 << 40, Window{}}),
	limitOf("c", Ceiling{Requests, 1 << 60, Window{time.Hour}}),
}

// BenchmarkCall measures Reserve and Settle, in memory and with the file.
func BenchmarkCall(b *testing.B) {
	for _, medium := range []string{"memory", "file"} {
		for _, limits := range [][]*Limit{benched[:1], benched[1:2], benched} {
			name := fmt.Sprintf("%s/limits=%d/ceilings=%d", medium, len(limits), len(limits[len(limits)-1].Ceilings))
			run := func(b *testing.B, call func(l *Limiter, r *Reservation, asks []Ask)) {
				var o Options
				if medium == "file" {
					o.Path = filepath.Join(b.TempDir(), "limits")
				}
				l := openOn(o, journal.Options{})
				defer l.Close()
				var subjects atomic.Int64
				b.ReportAllocs()
				begun := processorTime()
				b.SetParallelism(8)
				b.RunParallel(func(pb *testing.PB) {
					var r Reservation
					var asks []Ask
					for _, limit := range limits {
						asks = append(asks, Ask{limit, fmt.Sprint("subject-", subjects.Add(1))})
					}
					for pb.Next() {
						call(l, &r, asks)
					}
				})
				b.ReportMetric(float64(processorTime()-begun)/float64(b.N), "cpu-ns/op")
			}
			b.Run(name, func(b *testing.B) {
				now := time.Now()
				run(b, func(l *Limiter, r *Reservation, asks []Ask) {
					if l.ReserveInto(r, "workspace", now, asks, Amounts{1, 1000, 1000}) == nil {
						r.Settle(now, Amounts{1, 700, 700})
					}
				})
			})
		}
	}
}

// BenchmarkAlone measures a single caller, which waits for each write.
func BenchmarkAlone(b *testing.B) { benchmarkCaller(b, func() {}) }

// BenchmarkSpaced measures a caller that yields to other goroutines in a call and between
// two calls, like a caller that waits for a provider.
func BenchmarkSpaced(b *testing.B) { benchmarkCaller(b, runtime.Gosched) }

// benchmarkCaller measures one caller that pauses in each call and after it.
func benchmarkCaller(b *testing.B, pause func()) {
	for _, medium := range []string{"memory", "file"} {
		b.Run(medium, func(b *testing.B) {
			var o Options
			if medium == "file" {
				o.Path = filepath.Join(b.TempDir(), "limits")
			}
			l := openOn(o, journal.Options{})
			defer l.Close()
			var r Reservation
			asks, now := []Ask{{benched[0], "subject"}}, time.Now()
			b.ReportAllocs()
			begun := processorTime()
			for b.Loop() {
				if l.ReserveInto(&r, "workspace", now, asks, Amounts{1, 1000, 1000}) == nil {
					pause()
					r.Settle(now, Amounts{1, 700, 700})
				}
				pause()
			}
			b.ReportMetric(float64(processorTime()-begun)/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkSubjects measures the search for the fullest 20 of 100,000 subjects.
func BenchmarkSubjects(b *testing.B) {
	l := openOn(Options{}, journal.Options{})
	now := time.Now()
	for i := range 100_000 {
		var r Reservation
		l.ReserveInto(&r, "w", now, []Ask{{benched[0], fmt.Sprint("subject-", i)}}, Amounts{1, 0, int64(i)})
		r.Settle(now, Amounts{1, 0, int64(i * 7919 % 100_000)})
	}
	b.ReportAllocs()
	for b.Loop() {
		if got := l.Subjects("w", now, benched[0], 20); len(got) != 20 {
			b.Fatal(len(got))
		}
	}
}

// BenchmarkWrittenAnew measures a rewrite of 100,000 subjects, and the longest wait of a
// call during it.
func BenchmarkWrittenAnew(b *testing.B) {
	l := openOn(Options{Path: filepath.Join(b.TempDir(), "limits")}, journal.Options{})
	defer l.Close()
	now := time.Now()
	for i := range 100_000 {
		var r Reservation
		l.ReserveInto(&r, "w", now, []Ask{{benched[0], fmt.Sprint("subject-", i)}}, Amounts{1, 0, 1})
		r.Settle(now, Amounts{1, 0, 1})
	}
	var longest time.Duration
	var r Reservation
	asks := []Ask{{benched[0], "subject-1"}}
	for b.Loop() {
		go func() { _ = l.file.rewrite(b.Context()) }()
		for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); {
			begun := time.Now()
			l.ReserveInto(&r, "w", now, asks, Amounts{1, 0, 1})
			longest = max(longest, time.Since(begun))
			r.Settle(now, Amounts{1, 0, 1})
		}
	}
	b.ReportMetric(float64(longest.Microseconds()), "longest-µs")
}

// BenchmarkMemory measures the memory of a subject of a limit with one window.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		l := openOn(Options{}, journal.Options{})
		now := time.Now()
		const subjects = 100_000
		for i := range subjects {
			var r Reservation
			l.ReserveInto(&r, "w", now, []Ask{{benched[0], fmt.Sprint("subject-", i)}}, Amounts{1, 0, 1})
			r.Settle(now, Amounts{1, 0, 1})
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/subjects, "bytes/subject")
		runtime.KeepAlive(l)
	}
}
