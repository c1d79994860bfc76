package limit

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// patient makes a call that waits for the ledger, and returns what refuses it.
func patient(ctx context.Context, l *Limiter, want Amounts, asks ...Ask) (*Reservation, *Refusal) {
	r := &Reservation{Context: ctx}
	if refusal := l.ReserveInto(r, "w", time.Now(), asks, want); refusal != nil {
		return nil, refusal
	}
	return r, nil
}

// burst makes so many calls at the same time, and returns how many were let in and how
// long the slowest took.
func burst(ctx context.Context, calls int, ask Ask, nodes ...*Limiter) (passed int, took time.Duration) {
	var let atomic.Int64
	var work sync.WaitGroup
	begun := time.Now()
	for i := range calls {
		work.Go(func() {
			if r, refusal := patient(ctx, nodes[i%len(nodes)], Amounts{Requests: 1}, ask); refusal == nil {
				let.Add(1)
				r.Settle(time.Now(), Amounts{Requests: 1})
			}
		})
	}
	work.Wait()
	return int(let.Load()), time.Since(begun)
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

// sharing returns, at the beginning of an hour, a ledger, a limiter that shares by it,
// and the hundred requests an hour of a subject.
func sharing(t *testing.T) (*testLedger, *Limiter, Ask) {
	hour()
	ledger := new(testLedger)
	l := opened(t, Options{})
	l.SetLedger("w", ledger)
	return ledger, l, Ask{limitOf("l", Ceiling{Requests, 100, Window{time.Hour}}), "ada"}
}

// A burst that has room passes whole, however small its ceiling is: calls beyond the
// lease wait until the ledger has answered. Then all is used, and the next call is
// refused until the window ends.
func TestABurstWaitsForItsLease(t *testing.T) {
	for _, most := range []int{2, 10, 99, 1000} {
		synctest.Test(t, func(t *testing.T) {
			hour()
			ledger := &testLedger{fault: slow(2 * time.Millisecond)}
			l := opened(t, Options{})
			l.SetLedger("w", ledger)
			ask := Ask{limitOf("l", Ceiling{Requests, int64(most), Window{time.Hour}}), "ada"}
			passed, took := burst(t.Context(), most, ask, l)
			if passed != most || took > 2*2*time.Millisecond+hurriedPause {
				t.Errorf("%d of %d in %s", passed, most, took)
			}
			settle()
			_, refusal := patient(t.Context(), l, Amounts{Requests: 1}, ask)
			if refusal == nil || refusal.RetryAfter < 50*time.Minute {
				t.Errorf("%+v: want the end of the window", refusal)
			}
			time.Sleep(2 * idleAfter)
			if got := ledger.only(t); got != (booked{int64(most), int64(most)}) {
				t.Errorf("%+v of %d", got, most)
			}
		})
	}
}

// Three processes with a burst each at one small ceiling let in what it has, and above
// it what each has on credit at most: one lease. The others are refused soon. What one
// process does not use is another's.
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

// What calls wait for is asked for once, and what each of several ceilings lacks in the
// same exchange.
func TestWhatCallsWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hour()
		ledger := &testLedger{fault: slow(50 * time.Millisecond)}
		l := opened(t, Options{})
		l.SetLedger("w", ledger)
		ask := Ask{limitOf("l", Ceiling{Tokens, 1000, Window{time.Hour}}), "ada"}
		other := Ask{limitOf("m", Ceiling{Tokens, 500, Window{time.Hour}}), "ada"}
		mustReserve(t, l, time.Now(), Amounts{Tokens: 50}, ask, other)
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
			if b.taken < 450 || b.taken > 650 {
				t.Errorf("%s: %d are taken for 450", name, b.taken)
			}
		}
		if ledger.exchanges > 3 {
			t.Errorf("%d exchanges", ledger.exchanges)
		}
	})
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

// No call waits where a ledger's answer brings nothing, or can't be expected soon.
func TestCallsThatDoNotWait(t *testing.T) {
	ask := Ask{limitOf("l", Ceiling{Requests, 100, Window{time.Hour}}, Ceiling{Measure: InFlight, Most: 50}), "ada"}
	for name, test := range map[string]struct {
		ledger *testLedger
		before func(t *testing.T, l *Limiter)
		calls  int
		ctx    func(t *testing.T) context.Context
		passed int
		most   time.Duration // that a call may take
	}{
		"no ledger":                   {calls: 101, passed: 100},
		"the ledger is away":          {ledger: &testLedger{fault: func() error { return errAway }}, calls: 50, passed: 0, before: exhaust(ask)},
		"the ledger hangs":            {ledger: &testLedger{fault: slow(4 * time.Second)}, calls: 50, passed: 5, most: longestWait},
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
		}, most: 10 * time.Millisecond},
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
				if passed, took := burst(ctx, test.calls, ask, l); passed != test.passed || took > test.most {
					t.Errorf("%d passed, want %d; one took %s", passed, test.passed, took)
				}
			})
		})
	}
}

// exhaust uses what a subject has on credit, and waits until its ledger is known to be
// slow, or away.
func exhaust(ask Ask) func(t *testing.T, l *Limiter) {
	return func(_ *testing.T, l *Limiter) {
		use(l, ask, 100)
		time.Sleep(longestWait)
		synctest.Wait()
	}
}

// Calls that wait are woken where the ledger fails, where another one takes its place,
// where limits are no longer shared, where the limiter closes, and where the window ends.
func TestCallsThatWaitAreWoken(t *testing.T) {
	const first = 80 * time.Millisecond // that the first exchange takes
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
				l := openOn(Options{}, osDisk)
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
