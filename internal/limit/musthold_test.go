package limit

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// The ways in which the calls of TestMustHoldNoReservationLeaks end.
const (
	ends = iota
	cancelled
	timedOut
	panicked
	crashed
)

// faultyCall is a call that waits for its end.
type faultyCall struct {
	asks  []Ask
	taken Amounts // set aside
	used  Amounts
	end   chan int
	done  chan struct{}
}

// run is a call as the gateway makes one: whatever happens, it is settled.
func (c *faultyCall) run(r *Reservation) {
	defer close(c.done)
	defer func() { _ = recover() }()
	defer func() { r.Settle(time.Now(), c.used) }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	switch <-c.end {
	case cancelled:
		cancel()
		<-ctx.Done()
	case timedOut:
		short, stop := context.WithTimeout(ctx, time.Millisecond)
		defer stop()
		<-short.Done()
	case panicked:
		panic("a fault")
	}
}

// TestMustHoldNoReservationLeaks ends 1,000,000 calls by cancels, time-outs, panics and
// crashes of the process, or a hundredth of them without CADENZA_FULL=1. A crash comes
// at any byte of what is written. Nothing stays set aside or in flight, and each subject
// has used the sum of its settlements, and all that its crashed calls had set aside. Of
// the settlements that no reservation has followed, those that the crash came before
// count all that was set aside, too.
func TestMustHoldNoReservationLeaks(t *testing.T) {
	n := 10_000
	if os.Getenv("CADENZA_FULL") != "" {
		n = 1_000_000
	}
	began := time.Now()
	counts := make(map[int]int)
	crashes, whole := 0, 0
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(3, 4))
		path := filepath.Join(t.TempDir(), "limits")
		limits := []*Limit{
			limitOf("tokens", Ceiling{Tokens, 1 << 40, Month}, Ceiling{InFlight, 20, Window{}}),
			limitOf("money", Ceiling{Money, 1 << 40, Month}, Ceiling{Requests, 1 << 40, Month}),
		}
		expected := make(map[Ask]Amounts)
		count := func(c *faultyCall, used Amounts) {
			for _, ask := range c.asks {
				expected[ask] = expected[ask].plus(used)
			}
		}
		var settled []*faultyCall // whose settlements may wait to be written
		flushed := func() {
			for _, c := range settled {
				count(c, c.used)
			}
			settled = nil
		}
		disk := new(mortal)
		l := openOn(Options{Path: path}, disk.disk())
		// wrong is the first counter that is not as expected.
		wrong := func() string {
			for _, limit := range limits {
				for i := range 8 {
					ask := Ask{limit, fmt.Sprint("s", i)}
					for _, s := range l.AppendStandings(nil, "w", time.Now(), ask) {
						if want := expected[ask]; s.Used != want.Of(s.Ceiling.Measure) || s.Reserved != 0 {
							return fmt.Sprintf("%s of %s: %d used and %d set aside of measure %d, want %d", s.Subject, limit.Name, s.Used, s.Reserved, s.Ceiling.Measure, want.Of(s.Ceiling.Measure))
						}
					}
				}
			}
			return ""
		}
		var open []*faultyCall
		begin := func(more bool) *faultyCall {
			c := &faultyCall{taken: Amounts{1, random.Int64N(5000), random.Int64N(5000)}, end: make(chan int), done: make(chan struct{})}
			for _, i := range random.Perm(2)[:1+random.IntN(2)] {
				c.asks = append(c.asks, Ask{limits[i], fmt.Sprint("s", random.IntN(8))})
			}
			r, refusal := l.Reserve("w", time.Now(), c.asks, c.taken)
			if refusal != nil {
				c.asks = nil
				return c
			}
			flushed()
			if amounts := (Amounts{0, random.Int64N(100), random.Int64N(100)}); more && r.More(time.Now(), amounts) {
				c.taken = c.taken.plus(amounts)
			}
			c.used = Amounts{1, random.Int64N(c.taken.Tokens + 1), random.Int64N(c.taken.Money + 1)}
			if random.IntN(8) == 0 {
				c.used = c.taken.plus(Amounts{0, 1 + random.Int64N(50), 1 + random.Int64N(50)})
			}
			open = append(open, c)
			go c.run(r)
			return c
		}
		end := func(fault int) *faultyCall {
			i := random.IntN(len(open))
			c := open[i]
			open = slices.Delete(open, i, i+1)
			c.end <- fault
			<-c.done
			counts[fault]++
			return c
		}
		for left := n; left > 0; {
			for range 1 + random.IntN(100) {
				for len(open) < 30 && random.IntN(3) > 0 {
					begin(random.IntN(3) == 0)
				}
				if len(open) > 0 {
					fault := random.IntN(crashed)
					c := end(fault)
					settled = append(settled, c)
					if c.used.Tokens > c.taken.Tokens { // it does not wait
						synctest.Wait()
						flushed()
					}
					if fault != ends {
						left--
					}
				}
			}
			if random.IntN(2) == 0 {
				written()
				flushed()
			}
			// The process dies within what it writes, with one more change at its end.
			waiting := settled
			settled = nil
			disk.die(random.IntN([]int{150, 3000}[random.IntN(2)]))
			var last *faultyCall
			var is, was Amounts // what it used, if the change is on the disk and if not
			if len(open) == 0 || random.IntN(2) == 0 {
				last = begin(false)
				is, was = last.taken, Amounts{}
			} else {
				last = end(ends)
				is, was = last.used, last.taken
			}
			if random.IntN(4) > 0 {
				written()
			}
			disk.die(0)
			for _, c := range open {
				counts[crashed]++
				left--
				if c != last {
					count(c, c.taken)
				}
				c.end <- ends // in vain
				<-c.done
			}
			open = nil
			crashes++
			mustClose(t, l)

			// The next one may die while it begins, or in use, within the file that it
			// writes anew.
			if random.IntN(4) == 0 {
				disk = new(mortal)
				disk.die(random.IntN(3000))
				mustClose(t, openOn(Options{Path: path}, disk.disk()))
			}
			disk = new(mortal)
			l = openOn(Options{Path: path}, disk.disk())
			synctest.Wait()
			l.file.bound = random.Int64N(30_000)
			// The changes are written in their order: some of the first, or all.
			changes := len(waiting) + 1
			before, fault := expected, ""
			for n := changes; n >= 0; n-- {
				expected = maps.Clone(before)
				for i, c := range waiting {
					if i < n {
						count(c, c.used)
					} else {
						count(c, c.taken)
					}
				}
				if n == changes {
					count(last, is)
				} else {
					count(last, was)
				}
				if fault = wrong(); fault == "" {
					if n == changes {
						whole++
					}
					break
				}
			}
			if fault != "" {
				t.Fatalf("after %d crashes: %s", crashes, fault)
			}
		}
		mustClose(t, l)
	})
	t.Logf("%d ended, %d cancelled, %d timed out, %d panicked, %d cut off by %d crashes, of which %d came after the last change was written; %s",
		counts[ends], counts[cancelled], counts[timedOut], counts[panicked], counts[crashed], crashes, whole, time.Since(began).Round(time.Millisecond))
}
