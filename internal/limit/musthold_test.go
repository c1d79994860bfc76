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

	"github.com/cadenza-gateway/cadenza/internal/journaltest"
)

// The ways in which calls of TestMustHoldNoReservationLeaks end.
const (
	ends = iota
	cancelled
	timedOut
	panicked
	crashed
)

// faultyCall is a running call. Its run returns when end has a value.
type faultyCall struct {
	asks  []Ask
	taken Amounts // set aside
	used  Amounts
	end   chan int
	done  chan struct{}
}

// run makes a call like the gateway's: it is settled whatever happens.
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
// at any byte of a write. It checks that nothing stays set aside or in flight, and that
// the use of each subject is the sum of its settlements and of the amounts that its
// crashed calls had set aside. If the crash came before a settlement was written, that
// call counts its amount set aside, too.
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
				expected[ask] = expected[ask].Plus(used)
			}
		}
		var settled []*faultyCall // their settlements may not be written yet
		flushed := func() {
			for _, c := range settled {
				count(c, c.used)
			}
			settled = nil
		}
		disk := new(journaltest.Disk)
		l := openOn(Options{Path: path}, disk.Options())
		// wrong describes the first counter that is not as expected.
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
				c.taken = c.taken.Plus(amounts)
			}
			c.used = Amounts{1, random.Int64N(c.taken[Tokens] + 1), random.Int64N(c.taken[Money] + 1)}
			if random.IntN(8) == 0 {
				c.used = c.taken.Plus(Amounts{0, 1 + random.Int64N(50), 1 + random.Int64N(50)})
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
					if c.used[Tokens] > c.taken[Tokens] { // written at once
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
			// The process dies during a write that ends with one more change.
			waiting := settled
			settled = nil
			disk.Die(random.IntN([]int{150, 3000}[random.IntN(2)]))
			var last *faultyCall
			var with, without Amounts // the use of last, if the change is on the disk and if not
			if len(open) == 0 || random.IntN(2) == 0 {
				last = begin(false)
				with, without = last.taken, Amounts{}
			} else {
				last = end(ends)
				with, without = last.used, last.taken
			}
			if random.IntN(4) > 0 {
				written()
			}
			disk.Die(0)
			for _, c := range open {
				counts[crashed]++
				left--
				if c != last {
					count(c, c.taken)
				}
				c.end <- ends // the disk no longer accepts the settlement
				<-c.done
			}
			open = nil
			crashes++
			mustClose(t, l)

			// The next process may die at its start, or later, while it rewrites its file.
			if random.IntN(4) == 0 {
				disk = new(journaltest.Disk)
				disk.Die(random.IntN(3000))
				mustClose(t, openOn(Options{Path: path}, disk.Options()))
			}
			disk = new(journaltest.Disk)
			options := disk.Options()
			options.Growth = 1 + random.Int64N(30_000)
			l = openOn(Options{Path: path}, options)
			synctest.Wait()
			// The changes are written in order, so the file has the first n of them.
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
					count(last, with)
				} else {
					count(last, without)
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
