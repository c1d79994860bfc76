package limit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/journal"
	"github.com/cadenza-gateway/cadenza/internal/journaltest"
)

// faults returns a fault of a testLedger that fails the next exchanges with these errors,
// one after the other. Later exchanges succeed.
func faults(errs ...error) func() error {
	return func() error {
		if len(errs) == 0 {
			return nil
		}
		err := errs[0]
		errs = errs[1:]
		return err
	}
}

// If the answer to an exchange is lost, the ledger does not book it again, and its grant
// is used: at the beginning, in the middle, and at the return of a lease. This also holds
// if the ledger is unreachable in between.
func TestAnswersThatAreLost(t *testing.T) {
	for _, lost := range [][]error{
		{ErrInDoubt},
		{ErrInDoubt, ErrInDoubt},
		{ErrInDoubt, errAway, errAway},
		{errAway, ErrInDoubt, errAway, ErrInDoubt},
	} {
		synctest.Test(t, func(t *testing.T) {
			ledger, l, ask := sharing(t)
			n := int64(0)
			for range 5 {
				ledger.set(faults(lost...))
				n += int64(use(l, ask, 3))
				time.Sleep(10 * longestAway)
				n += int64(use(l, ask, 3))
				ledger.set(faults(lost...))
				time.Sleep(2 * idleAfter)
				synctest.Wait()
				if got := ledger.only(t); got != (booked{n, n}) {
					t.Errorf("%v: %+v after %d calls", lost, got, n)
				}
			}
			if got := used(l, time.Now(), ask, 0); got != fmt.Sprintf("%d+0", n) || n != 30 {
				t.Errorf("%v: %s of %d calls", lost, got, n)
			}
		})
	}
}

// While it is not known whether a lease was returned, the process does not use it.
func TestAReturnInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger, l, ask := sharing(t)
		use(l, ask, 3)
		settle()
		ledger.set(func() error { return errAway })
		time.Sleep(2 * idleAfter)
		ledger.set(faults(ErrInDoubt, errAway, errAway, errAway, errAway, errAway))
		time.Sleep(10 * longestAway)
		synctest.Wait()
		if got := ledger.only(t); got.taken != 3 {
			t.Fatalf("%+v: the return was not booked", got)
		}
		if n := use(l, ask, 100); n != 5 {
			t.Errorf("%d calls, want a lease on credit", n)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := ledger.only(t); got != (booked{8, 8}) {
			t.Errorf("%+v", got)
		}
	})
}

// If a window ends while its exchange is in doubt, the next window begins normally.
func TestAWindowThatEndsInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger, l, ask := sharing(t)
		ledger.set(faults(ErrInDoubt, errAway, errAway, errAway, errAway))
		time.Sleep(time.Hour - time.Second)
		use(l, ask, 3)
		time.Sleep(2 * time.Second)
		n := int64(use(l, ask, 100))
		time.Sleep(time.Minute)
		n += int64(use(l, ask, 3))
		time.Sleep(2 * idleAfter)
		synctest.Wait()
		if n != 8 {
			t.Errorf("%d calls in the next window, want a lease on credit, and more with the ledger there", n)
		}
		if got := used(l, time.Now(), ask, 0); got != "8+0" {
			t.Errorf("%s in the next window", got)
		}
		ledger.mu.Lock()
		defer ledger.mu.Unlock()
		var second booked
		for _, b := range ledger.counters {
			if b.used == 8 {
				second = *b
			}
		}
		if len(ledger.counters) != 2 || second != (booked{8, 8}) {
			t.Errorf("%d counters, the second %+v", len(ledger.counters), second)
		}
	})
}

// A reload takes over an exchange in doubt: the new fleet repeats it before any other one.
// Counters that calls use in this time have one claim at a time.
func TestAReloadInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hour()
		ledger := &testLedger{fault: faults(ErrInDoubt, errAway, ErrInDoubt, errAway, errAway)}
		l := opened(t, Options{})
		ask := Ask{limitOf("l", Ceiling{Requests, 100, Window{time.Hour}}), "ada"}
		n := int64(0)
		for range 6 {
			l.SetLedger("w", &mortalLedger{testLedger: ledger})
			n += int64(use(l, ask, 2))
			synctest.Wait()
			n += int64(use(l, ask, 2))
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		n += int64(use(l, ask, 2))
		time.Sleep(3 * idleAfter)
		synctest.Wait()
		if got := ledger.only(t); got != (booked{n, n}) || n < 7 {
			t.Errorf("%+v after %d calls", got, n)
		}
	})
}

// stuckLedger books an exchange only when its context has ended.
type stuckLedger struct{ *testLedger }

func (l stuckLedger) Exchange(ctx context.Context, id ExchangeID, claims []Claim) ([]Answer, error) {
	<-ctx.Done()
	_, _ = l.testLedger.Exchange(ctx, id, claims)
	return nil, ErrInDoubt
}

// An exchange that a reload cuts short, or that takes over 5 s, is in doubt like any other.
func TestAnExchangeThatIsCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hour()
		ledger := new(testLedger)
		l := opened(t, Options{})
		l.SetLedger("w", stuckLedger{ledger})
		ask := Ask{limitOf("l", Ceiling{Requests, 100, Window{time.Hour}}), "ada"}
		use(l, ask, 3)
		time.Sleep(2 * exchangeTimeout)
		synctest.Wait()
		l.SetLedger("w", ledger)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := ledger.only(t); got != (booked{3, 3}) {
			t.Errorf("%+v", got)
		}
	})
}

// A process is killed after the ledger has booked its return, but before the answer. After
// a restart, it does not use the returned amount.
func TestAKillWithinAReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hour()
		path := filepath.Join(t.TempDir(), "limits")
		ask := Ask{limitOf("l", Ceiling{Requests, 100, Window{time.Hour}}), "ada"}
		disk := new(journaltest.Disk)
		ledger := new(testLedger)
		dying := &mortalLedger{testLedger: ledger}
		l := openOn(Options{Path: path}, disk.Options())
		l.SetLedger("w", dying)
		use(l, ask, 3)
		settle()
		if left := ledger.only(t).taken - 3; left < 3 {
			t.Fatalf("%d are left to return", left)
		}
		ledger.set(func() error {
			disk.Die(0)
			dying.dead.Store(true)
			return ErrInDoubt
		})
		time.Sleep(2 * idleAfter)
		synctest.Wait()
		if got := ledger.only(t); got.taken != 3 {
			t.Fatalf("%+v: the return was not booked", got)
		}
		mustClose(t, l)
		l = openOn(Options{Path: path}, journal.Options{})
		l.SetLedger("w", dying)
		if n := use(l, ask, 100); n != 5 {
			t.Errorf("%d calls, want a lease on credit", n)
		}
		mustClose(t, l)
	})
}

// Calls that wait for an answer are refused when it is lost, not when their wait ends.
func TestCallsThatWaitForALostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hour()
		ledger := &testLedger{fault: func() error { time.Sleep(50 * time.Millisecond); return ErrInDoubt }}
		l := opened(t, Options{})
		l.SetLedger("w", ledger)
		ask := Ask{limitOf("l", Ceiling{Requests, 100, Window{time.Hour}}), "ada"}
		passed, took := burst(t.Context(), 50, ask, l)
		if passed != 5 || took > 60*time.Millisecond {
			t.Errorf("%d passed in %s", passed, took)
		}
	})
}

// Two processes reload and become idle, and many answers of their ledger are lost. No count
// is lost: in the end the taken amount equals the used amount, and that is at most the
// ceiling and a lease each.
func TestNothingIsLostWithAnswers(t *testing.T) {
	for seed := range 20 {
		synctest.Test(t, func(t *testing.T) {
			hour()
			const nodes, ceiling, lease = 2, 1000, 60
			random := rand.New(rand.NewPCG(uint64(seed), 2))
			var mu sync.Mutex
			number := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return random.IntN(n)
			}
			ledger := new(testLedger)
			broken := func() error {
				time.Sleep(time.Duration(number(30)) * time.Millisecond)
				switch number(6) {
				case 0, 1:
					return ErrInDoubt
				case 2:
					return errAway
				}
				return nil
			}
			ledger.set(broken)
			ask := Ask{limitOf("l", Ceiling{Tokens, ceiling, Window{24 * time.Hour}}), "ada"}
			var limiters [nodes]*Limiter
			for i := range limiters {
				limiters[i] = opened(t, Options{})
				limiters[i].SetLedger("w", &mortalLedger{testLedger: ledger})
			}
			var spent int64
			for range 1500 {
				l := limiters[number(nodes)]
				want := int64(1 + number(lease))
				if r, refusal := l.Reserve("w", time.Now(), []Ask{ask}, Amounts{Tokens: want}); refusal == nil {
					n := int64(number(int(want) + 1))
					time.Sleep(time.Duration(number(20)) * time.Millisecond)
					r.Settle(time.Now(), Amounts{Tokens: n})
					spent += n
				}
				switch number(100) {
				case 0:
					l.SetLedger("w", &mortalLedger{testLedger: ledger})
				case 1:
					time.Sleep(2 * idleAfter)
				default:
					time.Sleep(time.Duration(number(100)) * time.Millisecond)
				}
			}
			ledger.set(nil)
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := ledger.only(t); got != (booked{spent, spent}) {
				t.Errorf("seed %d: %+v, want the %d that were used", seed, got, spent)
			}
			if spent > ceiling+nodes*lease || spent < ceiling*9/10 {
				t.Errorf("seed %d: %d of %d were used", seed, spent, ceiling)
			}
			for _, l := range limiters {
				if shared, since, err := l.Shared("w"); !shared || !since.IsZero() || errors.Is(err, ErrInDoubt) {
					t.Errorf("seed %d: shared %t, away since %v: %v", seed, shared, since, err)
				}
			}
		})
	}
}

// knowing is a ledger that records Known of each exchange's first claim.
type knowing struct {
	*testLedger
	known []bool
}

func (l *knowing) Exchange(ctx context.Context, id ExchangeID, claims []Claim) ([]Answer, error) {
	l.known = append(l.known, claims[0].Known)
	return l.testLedger.Exchange(ctx, id, claims)
}

// A claim says whether the ledger has answered for its counter in this window.
func TestWhatALedgerKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hour()
		ledger := &knowing{testLedger: new(testLedger)}
		l := opened(t, Options{})
		l.SetLedger("w", ledger)
		ask := Ask{limitOf("l", Ceiling{Requests, 100, Window{time.Hour}}), "ada"}
		for range 2 {
			ledger.known = nil
			use(l, ask, 3)
			time.Sleep(2 * idleAfter)
			synctest.Wait()
			if len(ledger.known) < 2 || ledger.known[0] || !ledger.known[1] {
				t.Errorf("known: %t", ledger.known)
			}
			hour()
		}
	})
}

// A counter that several reloads have queued has one claim.
func TestACounterThatIsQueuedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := new(testLedger) // panics at two claims
		l := opened(t, Options{})
		l.SetLedger("w", ledger)
		f := l.fleet("w")
		f.end()
		<-f.done // the test makes its exchange itself
		use(l, Ask{limitOf("l", Ceiling{Requests, 100, Window{24 * time.Hour}}), "ada"}, 3)
		f.queue = append(f.queue, f.queue...)
		if err := f.exchange(t.Context(), false); err != nil || ledger.exchanges != 1 {
			t.Errorf("%d exchanges: %v", ledger.exchanges, err)
		}
	})
}
