package limit

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/journal"
)

// patient makes a call that waits for the ledger.
func patient(ctx context.Context, l *Limiter, want Amounts, asks ...Ask) (*Reservation, *Refusal) {
	r := &Reservation{Context: ctx}
	if refusal := l.ReserveInto(r, "w", time.Now(), asks, want); refusal != nil {
		return nil, refusal
	}
	return r, nil
}

// burst makes concurrent calls, and returns how many passed and how long the slowest
// took.
func burst(ctx context.Context, calls int, ask Ask, nodes ...*Limiter) (passed int, took time.Duration) {
	var admitted atomic.Int64
	var work sync.WaitGroup
	begun := time.Now()
	for i := range calls {
		work.Go(func() {
			if r, refusal := patient(ctx, nodes[i%len(nodes)], Amounts{Requests: 1}, ask); refusal == nil {
				admitted.Add(1)
				r.Settle(time.Now(), Amounts{Requests: 1})
			}
		})
	}
	work.Wait()
	return int(admitted.Load()), time.Since(begun)
}

// slow returns a fault of a testLedger that answers late.
func slow(d time.Duration) func() error {
	return func() error {
		time.Sleep(d)
		return nil
	}
}

// hour sleeps until the beginning of a window.
func hour() { time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour))) }

// sharing returns, at the beginning of an hour, a ledger, a limiter that uses it, and an
// ask for a subject with a hundred requests an hour.
func sharing(t *testing.T) (*testLedger, *Limiter, Ask) {
	hour()
	ledger := new(testLedger)
	l := opened(t, Options{})
	l.SetLedger("w", ledger)
	return ledger, l, Ask{limitOf("l", Ceiling{Requests, 100, Window{time.Hour}}), "ada"}
}

// A burst up to the ceiling passes completely, however small the ceiling is: calls beyond
// the lease wait until the ledger has answered. Then the ceiling is full, and the next
// call is refused until the window ends.
func TestABurstWaitsForItsLease(t *testing.T) {
	for _, ceiling := range []int{2, 10, 99, 1000} {
		synctest.Test(t, func(t *testing.T) {
			hour()
			ledger := &testLedger{fault: slow(2 * time.Millisecond)}
			l := opened(t, Options{})
			l.SetLedger("w", ledger)
			ask := Ask{limitOf("l", Ceiling{Requests, int64(ceiling), Window{time.Hour}}), "ada"}
			passed, took := burst(t.Context(), ceiling, ask, l)
			if passed != ceiling || took > 2*2*time.Millisecond+hurriedPause {
				t.Errorf("%d of %d in %s", passed, ceiling, took)
			}
			settle()
			_, refusal := patient(t.Context(), l, Amounts{Requests: 1}, ask)
			if refusal == nil || refusal.RetryAfter < 50*time.Minute {
				t.Errorf("%+v: want the end of the window", refusal)
			}
			time.Sleep(2 * idleAfter)
			if got := ledger.only(t); got != (booked{int64(ceiling), int64(ceiling)}) {
				t.Errorf("%+v of %d", got, ceiling)
			}
		})
	}
}

// Three processes have a burst each at one small ceiling. They admit as many calls as the
// ceiling, plus one lease on credit each at most, and refuse the others soon. An amount
// that one process does not use is available to the others.
func TestBurstsAtSeveralProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hour()
		ledger := &testLedger{fault: slow(time.Millisecond)}
		nodes := []*Limiter{opened(t, Options{}), opened(t, Options{}), opened(t, Options{})}
		for _, l := range nodes {
			l.SetLedger("w", ledger)
		}
		ask := Ask{limitOf("l", Ceiling{Requests, 10, Window{time.Hour}}), "ada"}
		for range 5 {
			passed, took := burst(t.Context(), 30, ask, nodes...)
			if passed < 10 || passed > 13 || took >= longestWait {
				t.Errorf("%d of 10, in %s", passed, took)
			}
			if passed, _ := burst(t.Context(), 30, ask, nodes...); passed != 0 {
				t.Errorf("%d more", passed)
			}
			hour()

			// Two of them have used little.
			for _, l := range nodes[:2] {
				burst(t.Context(), 1, ask, l)
			}
			time.Sleep(2 * idleAfter)
			if passed, _ := burst(t.Context(), 30, ask, nodes[2]); passed != 8 {
				t.Errorf("%d of the 8 that are left", passed)
			}
			hour()
		}
	})
}

// Each amount that calls wait for is asked for once, also if the ledger answers for their
// ceilings one after the other. One exchange asks for the missing amounts of all ceilings.
// What a waiting call needs of one ceiling is not returned while it waits for another.
func TestWhatCallsWaitFor(t *testing.T) {
	for name, apart := range map[string]time.Duration{"together": 0, "apart": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hour()
				ledger := &testLedger{fault: slow(50 * time.Millisecond)}
				l := opened(t, Options{})
				l.SetLedger("w", ledger)
				ask := Ask{limitOf("l", Ceiling{Tokens, 1000, Window{time.Hour}}), "ada"}
				other := Ask{limitOf("m", Ceiling{Tokens, 500, Window{time.Hour}}), "ada"}
				mustReserve(t, l, time.Now(), Amounts{Tokens: 50}, ask)
				time.Sleep(apart)
				mustReserve(t, l, time.Now(), Amounts{Tokens: 50}, other)
				time.Sleep(10 * time.Millisecond) // the first exchange is under way
				var work sync.WaitGroup
				for range 4 {
					work.Go(func() {
						if _, refusal := patient(t.Context(), l, Amounts{Tokens: 100}, ask, other); refusal != nil {
							t.Errorf("%+v", refusal)
						}
					})
				}
				work.Wait()
				synctest.Wait()
				ledger.mu.Lock()
				defer ledger.mu.Unlock()
				for name, b := range ledger.counters {
					if b.taken != 450 {
						t.Errorf("%s: %d are taken for 450", name, b.taken)
					}
				}
				if ledger.exchanges > 3 {
					t.Errorf("%d exchanges", ledger.exchanges)
				}
			})
		})
	}
}

// A further attempt of a call waits, too.
func TestAFurtherAttemptWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hour()
		ledger := &testLedger{fault: slow(2 * time.Millisecond)}
		l := opened(t, Options{})
		l.SetLedger("w", ledger)
		ask := Ask{limitOf("l", Ceiling{Tokens, 1000, Window{time.Hour}}), "ada"}
		r, refusal := patient(t.Context(), l, Amounts{Tokens: 50}, ask)
		if refusal != nil {
			t.Fatalf("%+v", refusal)
		}
		for range 9 {
			if !r.More(time.Now(), Amounts{Tokens: 100}) {
				t.Error("there is room")
			}
		}
		if r.More(time.Now(), Amounts{Tokens: 100}) {
			t.Error("there is no room")
		}
		settle()

		// A call that ends while its attempt waits has none.
		hour()
		ledger.set(slow(50 * time.Millisecond))
		r, _ = patient(t.Context(), l, Amounts{Tokens: 50}, ask)
		go func() {
			time.Sleep(time.Millisecond)
			r.Settle(time.Now(), Amounts{Tokens: 1})
		}()
		if r.More(time.Now(), Amounts{Tokens: 100}) {
			t.Error("an attempt after the end of its call")
		}
	})
}

// No call waits if a ledger's answer would not help, or will not come soon.
func TestCallsThatDoNotWait(t *testing.T) {
	ask := Ask{limitOf("l", Ceiling{Requests, 100, Window{time.Hour}}, Ceiling{Measure: InFlight, Most: 50}), "ada"}
	for name, test := range map[string]struct {
		ledger  *testLedger
		before  func(t *testing.T, l *Limiter)
		calls   int
		ctx     func(t *testing.T) context.Context
		passed  int
		longest time.Duration // of a call
	}{
		"no ledger":                   {calls: 101, passed: 100},
		"the ledger is away":          {ledger: &testLedger{fault: func() error { return errAway }}, calls: 50, passed: 0, before: exhaust(ask)},
		"the ledger hangs":            {ledger: &testLedger{fault: slow(4 * time.Second)}, calls: 50, passed: 5, longest: longestWait},
		"the ledger has been hanging": {ledger: &testLedger{fault: slow(4 * time.Second)}, calls: 50, passed: 0, before: exhaust(ask)},
		"all is taken": {ledger: new(testLedger), calls: 50, passed: 0, before: func(t *testing.T, l *Limiter) {
			for range 3 {
				burst(t.Context(), 50, ask, l)
				settle()
			}
		}},
		"all was taken long ago": {ledger: &testLedger{fault: slow(10 * time.Millisecond)}, calls: 50, passed: 0, before: func(t *testing.T, l *Limiter) {
			for range 3 {
				burst(t.Context(), 50, ask, l)
				settle()
			}
			time.Sleep(2 * askAgain)
		}},
		"calls in flight take the room": {ledger: &testLedger{fault: slow(4 * time.Second)}, calls: 50, passed: 0, before: func(t *testing.T, l *Limiter) {
			use(l, ask, 5) // the lease
			for range 50 {
				mustReserve(t, l, time.Now(), Amounts{}, ask)
			}
		}},
		"the caller has left": {ledger: &testLedger{fault: slow(4 * time.Second)}, calls: 50, passed: 5, ctx: func(t *testing.T) context.Context {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(10*time.Millisecond, cancel)
			return ctx
		}, longest: 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hour()
				l := opened(t, Options{})
				if test.ledger != nil {
					l.SetLedger("w", test.ledger)
				}
				if test.before != nil {
					test.before(t, l)
				}
				ctx := t.Context()
				if test.ctx != nil {
					ctx = test.ctx(t)
				}
				if name == "no ledger" {
					if n := use(l, ask, test.calls); n != test.passed {
						t.Errorf("%d passed", n)
					}
					test.calls, test.passed = 1, 0
				}
				if passed, took := burst(ctx, test.calls, ask, l); passed != test.passed || took > test.longest {
					t.Errorf("%d passed, want %d; one took %s", passed, test.passed, took)
				}
			})
		})
	}
}

// exhaust uses the credit of a subject, and waits until its ledger is known to be slow or
// unavailable.
func exhaust(ask Ask) func(t *testing.T, l *Limiter) {
	return func(_ *testing.T, l *Limiter) {
		use(l, ask, 100)
		time.Sleep(longestWait)
		synctest.Wait()
	}
}

// Calls that wait are woken when the ledger fails, another one replaces it, limits are no
// longer shared, the limiter closes, or the window ends.
func TestCallsThatWaitAreWoken(t *testing.T) {
	const first = 80 * time.Millisecond // the duration of the first exchange
	for name, test := range map[string]struct {
		fault  func() error
		event  func(l *Limiter, ledger *testLedger)
		passed int
	}{
		"failure": {fault: func() error {
			time.Sleep(first)
			return errAway
		}},
		"another": {slow(first), func(l *Limiter, ledger *testLedger) { l.SetLedger("w", &mortalLedger{testLedger: ledger}) }, 5},
		"none":    {slow(first), func(l *Limiter, _ *testLedger) { l.SetLedger("w", nil) }, 5},
		"close":   {slow(first), func(l *Limiter, _ *testLedger) { _ = l.Close() }, 5},
		"window":  {slow(longestWait - 10*time.Millisecond), nil, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hour()
				time.Sleep(time.Hour - longestWait + 20*time.Millisecond)
				ledger := &testLedger{fault: test.fault}
				l := openOn(Options{}, journal.Options{})
				l.SetLedger("w", ledger)
				ask := Ask{limitOf("l", Ceiling{Requests, 100, Window{time.Hour}}), "ada"}
				use(l, ask, 100)
				var happens sync.WaitGroup
				happens.Go(func() {
					time.Sleep(first / 2)
					if test.event != nil {
						test.event(l, ledger)
					}
				})
				if passed, took := burst(t.Context(), 5, ask, l); passed != test.passed || took >= longestWait {
					t.Errorf("%d passed, after %s", passed, took)
				}
				happens.Wait()
				mustClose(t, l)
			})
		})
	}
}
