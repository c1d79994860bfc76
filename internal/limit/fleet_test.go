package limit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/journal"
	"github.com/cadenza-gateway/cadenza/internal/journaltest"
)

// booked is a counter of a testLedger.
type booked struct{ taken, used int64 }

// testLedger is a ledger in memory that several limiters may share.
type testLedger struct {
	mu        sync.Mutex
	counters  map[string]*booked
	exchanges int
	last      map[string]*bookedExchange // by process
	fault     func() error               // called before an exchange; ErrInDoubt fails it after booking
}

// bookedExchange is an exchange that a testLedger has booked.
type bookedExchange struct {
	id      ExchangeID
	granted []int64
}

func (l *testLedger) Exchange(_ context.Context, id ExchangeID, claims []Claim) ([]Answer, error) {
	l.mu.Lock()
	l.exchanges++
	before := l.fault
	l.mu.Unlock()
	var fault error
	if before != nil {
		if fault = before(); fault != nil && !errors.Is(fault, ErrInDoubt) {
			return nil, fault
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counters == nil {
		l.counters, l.last = make(map[string]*booked), make(map[string]*bookedExchange)
	}
	last := l.last[id.Process]
	if last != nil && last.id.Number > id.Number {
		panic("an exchange after a later one")
	}
	again := last != nil && last.id == id
	if !again {
		last = &bookedExchange{id: id}
		l.last[id.Process] = last
	}
	var answers []Answer
	claimed := make(map[string]bool)
	for i := range claims {
		c := &claims[i]
		name := fmt.Sprint(c.Limit, c.Subject, c.Measure, c.Start, c.End)
		if claimed[name] {
			panic("a counter has two claims in an exchange: " + name)
		}
		claimed[name] = true
		b := l.counters[name]
		if b == nil {
			b = new(booked)
			l.counters[name] = b
		}
		if !again {
			b.taken += c.Owed - c.Back
			granted := c.Grant(b.taken)
			last.granted = append(last.granted, granted)
			b.taken += granted
			b.used += c.Used
		}
		answers = append(answers, Answer{last.granted[len(answers)], b.taken, b.used})
	}
	return answers, fault
}

func (l *testLedger) Close() error { return nil }

// mortalLedger is the ledger of a process that can die.
type mortalLedger struct {
	*testLedger
	dead atomic.Bool
}

func (l *mortalLedger) Exchange(ctx context.Context, id ExchangeID, claims []Claim) ([]Answer, error) {
	if l.dead.Load() {
		return nil, errAway
	}
	return l.testLedger.Exchange(ctx, id, claims)
}

// set sets the function that is called before each exchange.
func (l *testLedger) set(fault func() error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = fault
}

// only returns the only counter.
func (l *testLedger) only(t *testing.T) booked {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.counters) != 1 {
		t.Fatalf("%d counters", len(l.counters))
	}
	for _, b := range l.counters {
		return *b
	}
	panic("unreachable")
}

// use makes up to limit calls until one is refused, and returns how many passed.
func use(l *Limiter, ask Ask, limit int) (n int) {
	for n < limit {
		r, refusal := l.Reserve("w", time.Now(), []Ask{ask}, Amounts{Requests: 1})
		if refusal != nil {
			return n
		}
		r.Settle(time.Now(), Amounts{Requests: 1})
		n++
	}
	return n
}

var errAway = errors.New("the database is away")

// The first calls of a window use one lease on credit. The ledger settles it and grants
// the next one; an idle subject returns its unused lease.
func TestALeaseIsGrantedSettledAndReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		ledger := &testLedger{fault: func() error { <-answer; return nil }}
		l := opened(t, Options{})
		l.SetLedger("w", ledger)
		ask := Ask{limitOf("l", Ceiling{Requests, 100, Window{time.Hour}}), "ada"}
		n := use(l, ask, 1)
		synctest.Wait() // the exchange with this call has begun
		if n += use(l, ask, 100); n != 5 {
			t.Errorf("%d calls before the ledger answered, want one lease of 5", n)
		}
		if refusal := mustRefuse(t, l, time.Now(), Amounts{Requests: 1}, ask); refusal.RetryAfter != 0 || refusal.Never {
			t.Errorf("%+v: there is room at any moment", refusal)
		}
		close(answer)
		synctest.Wait()
		time.Sleep(exchangePause)
		synctest.Wait()
		if got := ledger.only(t); got.taken != 6 {
			t.Errorf("%d are taken, want the first call and a lease", got.taken)
		}
		if n := use(l, ask, 3); n != 3 {
			t.Errorf("%d of 3 calls had room", n)
		}
		time.Sleep(2 * idleAfter)
		synctest.Wait()
		if got := ledger.only(t); got != (booked{8, 8}) {
			t.Errorf("an idle subject has left %+v, want what it used", got)
		}
		exchanges := ledger.exchanges
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if ledger.exchanges != exchanges {
			t.Errorf("%d exchanges while nothing was used", ledger.exchanges-exchanges)
		}
	})
}

// Without its ledger a process uses its granted amount and one lease, and then refuses
// calls; it admits calls again when the ledger is available again.
func TestALedgerThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &testLedger{fault: func() error { return errAway }}
		l := opened(t, Options{})
		l.SetLedger("w", ledger)
		begun := time.Now()
		ask := Ask{limitOf("l", Ceiling{Requests, 100, Window{24 * time.Hour}}), "ada"}
		for range 100 {
			use(l, ask, 100)
			time.Sleep(time.Second)
		}
		if got := used(l, time.Now(), ask, 0); got != "5+0" {
			t.Errorf("%s were used without the ledger, want one lease", got)
		}
		shared, since, err := l.Shared("w")
		if !shared || !errors.Is(err, errAway) || since.Sub(begun) > time.Second {
			t.Errorf("shared %t, away since %v: %v", shared, since.Sub(begun), err)
		}
		// Often enough to admit calls within a second of the ledger's return.
		if ledger.exchanges > 150 || ledger.exchanges < 100 {
			t.Errorf("%d tries in 100 seconds", ledger.exchanges)
		}
		ledger.set(nil)
		time.Sleep(time.Second)
		if n := use(l, ask, 1); n != 1 {
			t.Error("refused with the ledger there")
		}
		if _, since, err := l.Shared("w"); err != nil || !since.IsZero() {
			t.Errorf("away since %v: %v", since, err)
		}
	})
}

// Three processes share a ledger that fails, does not answer and recovers, while they are
// used, killed and restarted. Together they never use more than the ceiling and a lease
// each.
func TestProcessesExceedACeilingByALeaseEachAtMost(t *testing.T) {
	for seed := range 30 {
		synctest.Test(t, func(t *testing.T) {
			const nodes, ceiling, lease = 3, 1000, 60 // the largest call needs 60
			random := rand.New(rand.NewPCG(uint64(seed), 1))
			ledger := new(testLedger)
			var faults sync.Mutex
			failing := 0
			ledger.set(func() error {
				faults.Lock()
				defer faults.Unlock()
				switch random.IntN(20) {
				case 0:
					return ErrInDoubt
				case 1, 2:
					failing = random.IntN(5)
				}
				if failing > 0 {
					failing--
					return errAway
				}
				return nil
			})
			number := func(n int) int {
				faults.Lock()
				defer faults.Unlock()
				return random.IntN(n)
			}
			ask := Ask{limitOf("l", Ceiling{Tokens, ceiling, Window{time.Hour}}), "ada"}
			var limiters [nodes]*Limiter
			var disks [nodes]*journaltest.Disk
			var ledgers [nodes]*mortalLedger
			dir := t.TempDir()
			open := func(i int) {
				disks[i], ledgers[i] = new(journaltest.Disk), &mortalLedger{testLedger: ledger}
				limiters[i] = openOn(Options{Path: filepath.Join(dir, fmt.Sprint(i))}, disks[i].Options())
				limiters[i].SetLedger("w", ledgers[i])
			}
			for i := range nodes {
				open(i)
			}
			var spent int64
			for range 2000 {
				i := number(nodes)
				want := int64(1 + number(lease))
				r, refusal := limiters[i].Reserve("w", time.Now(), []Ask{ask}, Amounts{Tokens: want})
				if refusal == nil {
					synctest.Wait()
					n := int64(number(int(want) + 1))
					r.Settle(time.Now(), Amounts{Tokens: n})
					spent += n
				}
				if number(3) == 0 {
					time.Sleep(time.Duration(number(50)) * time.Millisecond)
				}
				if n := number(200); n < 2 {
					if n == 0 { // it is killed, possibly while it writes a record
						synctest.Wait()
						disks[i].Die(number(100))
						ledgers[i].dead.Store(true)
					}
					if err := limiters[i].Close(); err != nil {
						t.Fatal(err)
					}
					open(i)
				}
			}
			if spent > ceiling+nodes*lease {
				t.Errorf("seed %d: %d of %d were used, more than a lease each above it", seed, spent, ceiling)
			}
			if spent < ceiling/2 {
				t.Errorf("seed %d: only %d of %d were used", seed, spent, ceiling)
			}
			for _, l := range limiters {
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// settle waits until the ledgers have answered.
func settle() {
	time.Sleep(2 * exchangePause)
	synctest.Wait()
}

// Two processes see the use of both. When a process gets a ledger, its earlier use is
// booked. When the whole ceiling is taken, no process has credit, also after a restart;
// calls pass again only in the next window.
func TestProcessesSeeWhatOthersUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour))) // the beginning of a window
		ledger, path := new(testLedger), filepath.Join(t.TempDir(), "limits")
		l, other := openOn(Options{Path: path}, journal.Options{}), opened(t, Options{})
		ask := Ask{limitOf("l", Ceiling{Requests, 100, Window{time.Hour}}), "ada"}
		use(l, ask, 40)
		l.SetLedger("w", ledger)
		other.SetLedger("w", ledger)
		if n := use(l, ask, 1); n != 1 {
			t.Error("what was used before there was a ledger took the credit")
		}
		time.Sleep(2 * idleAfter) // until it reports its last call, too
		use(other, ask, 1)
		settle()
		if got := used(other, time.Now(), ask, 0); got != "42+0" {
			t.Errorf("%s, want what both used", got)
		}
		if share := shareOf(other, "w", time.Now(), ask); share != 42 {
			t.Errorf("%d percent", share)
		}
		for range 60 {
			use(l, ask, 100)
			settle()
		}
		time.Sleep(2 * idleAfter) // until the other one returns its lease
		for range 60 {
			use(l, ask, 100)
			time.Sleep(askAgain)
		}
		if got := used(l, time.Now(), ask, 0); got != "100+0" {
			t.Errorf("%s are used, want all", got)
		}
		if refusal := mustRefuse(t, l, time.Now(), Amounts{Requests: 1}, ask); refusal.RetryAfter < 50*time.Minute {
			t.Errorf("room after %s, want the end of the window", refusal.RetryAfter)
		}
		mustClose(t, l)
		l = opened(t, Options{Path: path})
		l.SetLedger("w", ledger)
		if n := use(l, ask, 100); n != 0 {
			t.Errorf("%d calls on credit after a restart, with nothing left", n)
		}
		settle()
		if got := ledger.only(t); got != (booked{100, 100}) {
			t.Errorf("%+v", got)
		}
		exchanges := ledger.exchanges
		for range 1000 {
			use(l, ask, 1)
			time.Sleep(10 * time.Millisecond)
		}
		if n := ledger.exchanges - exchanges; n < 8 || n > 11 {
			t.Errorf("the ledger was asked %d times in 10 seconds in vain", n)
		}
		ledger.set(func() error { return errAway })
		time.Sleep(time.Hour)
		if got := used(l, time.Now(), ask, 0); got != "0+0" {
			t.Errorf("%s in the next window", got)
		}
		if n := use(l, ask, 100); n != 5 {
			t.Errorf("%d calls on credit in the next window", n)
		}
	})
}

// A reload sets another ledger. Grants stay valid, and unused amounts are returned through
// the new ledger. Without a ledger a limit is not shared.
func TestAnotherLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := new(testLedger)
		l := opened(t, Options{})
		l.SetLedger("w", ledger)
		ask := Ask{limitOf("l", Ceiling{Requests, 100, Window{24 * time.Hour}}), "ada"}
		use(l, ask, 3)
		settle()
		if got := ledger.only(t); got.taken < 6 || got.taken > 8 { // some calls are in the first exchange
			t.Errorf("%+v", got)
		}
		next := &testLedger{counters: ledger.counters, last: ledger.last}
		l.SetLedger("w", next)
		time.Sleep(2 * idleAfter)
		synctest.Wait()
		if got := next.only(t); got != (booked{3, 3}) {
			t.Errorf("after a reload: %+v", got)
		}
		use(l, ask, 1)
		settle()
		l.SetLedger("w", nil)
		if got := next.only(t); got != (booked{4, 4}) {
			t.Errorf("without a ledger: %+v", got)
		}
		if shared, _, _ := l.Shared("w"); shared {
			t.Error("shared by nothing")
		}
		if n := use(l, ask, 100); n != 96 {
			t.Errorf("%d of the 96 that are left", n)
		}
	})
}

// A call that needs more than a lease is not refused for that. Its unused amount is
// returned while other calls continue.
func TestALeaseIsAsLargeAsACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := new(testLedger)
		l := opened(t, Options{})
		l.SetLedger("w", ledger)
		ask := Ask{limitOf("l", Ceiling{Tokens, 1000, Window{24 * time.Hour}}), "ada"}
		var calls []*Reservation
		for range 4 {
			calls = append(calls, mustReserve(t, l, time.Now(), Amounts{Tokens: 200}, ask))
			settle()
		}
		for _, r := range calls {
			r.Settle(time.Now(), Amounts{Tokens: 1})
		}
		settle()
		if got := ledger.only(t); got.taken > 4+2*200 || got.used != 4 {
			t.Errorf("%+v: more than two leases lie unused", got)
		}
	})
}

// TestGrants checks the grant of a claim: a lease, an eighth of the remaining amount if
// that is less, and at least the amount that a call needs, if so much remains.
func TestGrants(t *testing.T) {
	for _, test := range []struct{ taken, least, want int64 }{
		{0, 1, 50}, {600, 1, 50}, {800, 1, 25}, {992, 1, 1}, {800, 60, 60}, {990, 60, 10}, {1000, 60, 0}, {1100, 1, 0}, {0, 0, 0},
	} {
		c := Claim{Most: 1000, Lease: 50, Least: test.least}
		if got := c.Grant(test.taken); got != test.want {
			t.Errorf("%+v: %d", test, got)
		}
	}
}

// While a return is in doubt, the process does not use it: the ledger may have booked it.
// A grant for a window that has ended does not count for the next window.
func TestAnswersThatAreLostOrLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger, l, ask := sharing(t)
		use(l, ask, 3)
		settle()
		lost := false
		ledger.set(func() error {
			if lost {
				return errAway
			}
			lost = true
			return ErrInDoubt
		})
		time.Sleep(2 * idleAfter)
		synctest.Wait()
		if got := ledger.only(t); got.taken != 3 {
			t.Errorf("%+v: the return was not booked", got)
		}
		if n := use(l, ask, 100); n != 5 {
			t.Errorf("%d calls after a return in doubt, want a lease on credit", n)
		}

		ledger.set(func() error {
			time.Sleep(2 * time.Second)
			return nil
		})
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)) + 10*time.Second)
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)) - time.Second)
		use(l, ask, 3)
		synctest.Wait() // the exchange has begun
		time.Sleep(1500 * time.Millisecond)
		first := use(l, ask, 1) // in the next window
		ledger.set(func() error { return errAway })
		settle()
		time.Sleep(10 * time.Second)
		if n := first + use(l, ask, 100); n != 5 {
			t.Errorf("%d calls with what was granted for an earlier window, want a lease on credit", n)
		}
	})
}

// A process that starts while the previous one still has the file counts the use of that
// process, but takes over its leases only when it has ended.
func TestLeasesOfTheProcessBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "limits")
		ask := Ask{limitOf("l", Ceiling{Requests, 100, Month}), "ada"}
		ledger := new(testLedger)
		dying := &mortalLedger{testLedger: ledger}
		old := openOn(Options{Path: path}, journal.Options{})
		old.SetLedger("w", dying)
		use(old, ask, 3)
		settle()
		next := openOn(Options{Path: path}, journal.Options{})
		next.SetLedger("w", &testLedger{fault: func() error { return errAway }})
		if n := use(next, ask, 100); n != 5 {
			t.Errorf("%d calls, want a lease on credit", n)
		}
		dying.dead.Store(true)
		mustClose(t, old)
		left := int(ledger.only(t).taken) - 3
		time.Sleep(time.Minute)
		if err := next.Err(); err != nil {
			t.Fatal(err)
		}
		if n := use(next, ask, 100); n != left {
			t.Errorf("%d calls, want the %d that the process before had left", n, left)
		}
		mustClose(t, next)
	})
}

// An exchange examines the counters with claims, not all counters with leases.
func TestCountersThatAreHeldCostNothing(t *testing.T) {
	cost := func(held int) time.Duration {
		l := opened(t, Options{})
		l.SetLedger("w", new(testLedger))
		f := l.fleet("w")
		f.end()
		<-f.done // the test makes its exchanges itself
		limit := limitOf("l", Ceiling{Requests, 1 << 40, Window{24 * time.Hour}})
		exchange := func() time.Duration {
			begun := time.Now()
			if err := f.exchange(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			return time.Since(begun)
		}
		for i := range held {
			use(l, Ask{limit, fmt.Sprint(i)}, 1)
		}
		exchange()
		if len(f.held) != held {
			t.Fatalf("%d of %d have leases", len(f.held), held)
		}
		best := time.Hour
		for i := range 50 {
			use(l, Ask{limit, fmt.Sprint("busy ", i)}, 1)
			best = min(best, exchange())
		}
		return best
	}
	if few, many := cost(1), cost(20_000); many > 20*few {
		t.Errorf("an exchange takes %s with 20,000 counters, %s with one", many, few)
	}
}

// If a return fails, the process keeps the granted amount, and uses it while the ledger is
// unavailable.
func TestAReturnThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger, l, ask := sharing(t)
		use(l, ask, 3)
		settle()
		granted := int(ledger.only(t).taken) - 3
		ledger.set(func() error { return errAway })
		time.Sleep(3 * idleAfter)
		synctest.Wait()
		if n := use(l, ask, 100); n != granted+5 {
			t.Errorf("%d calls, want the %d that were granted, and a lease on credit", n, granted)
		}
	})
}

// briefLedger leaves the last claim without an answer.
type briefLedger struct{ *testLedger }

func (l briefLedger) Exchange(ctx context.Context, id ExchangeID, claims []Claim) ([]Answer, error) {
	answers, err := l.testLedger.Exchange(ctx, id, claims)
	return answers[:len(answers)-1], err
}

// If a ledger does not answer all claims, the exchange has failed.
func TestALedgerThatAnswersTooLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := opened(t, Options{})
		l.SetLedger("w", briefLedger{new(testLedger)})
		ask := Ask{limitOf("l", Ceiling{Requests, 100, Window{24 * time.Hour}}), "ada"}
		use(l, ask, 3)
		settle()
		if _, since, err := l.Shared("w"); since.IsZero() || !errors.Is(err, ErrInDoubt) {
			t.Errorf("away since %v: %v", since, err)
		}
	})
}

// A process that is killed still has its leases after a restart.
func TestLeasesOutliveAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hour()
		path := filepath.Join(t.TempDir(), "limits")
		ask := Ask{limitOf("l", Ceiling{Requests, 100, Window{time.Hour}}), "ada"}
		ledger, disk := &testLedger{fault: slow(10 * time.Millisecond)}, new(journaltest.Disk)
		dying := &mortalLedger{testLedger: ledger}
		l := openOn(Options{Path: path}, disk.Options())
		l.SetLedger("w", dying)
		use(l, ask, 3)
		settle()
		disk.Die(0)
		dying.dead.Store(true)
		left := int(ledger.only(t).taken) - 3
		mustClose(t, l)
		l = openOn(Options{Path: path}, journal.Options{})
		l.SetLedger("w", dying)
		if n := use(l, ask, 100); n != left+5 {
			t.Errorf("%d calls, want the %d of the lease, and one on credit", n, left)
		}
		mustClose(t, l)
	})
}
