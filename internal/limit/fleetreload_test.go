package limit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/journal"
)

// latentLedger books at once and answers late. If the caller does not wait for the answer,
// the exchange is in doubt.
type latentLedger struct {
	*testLedger
	late time.Duration
}

func (l *latentLedger) Exchange(ctx context.Context, id ExchangeID, claims []Claim) ([]Answer, error) {
	answers, err := l.testLedger.Exchange(ctx, id, claims)
	select {
	case <-time.After(l.late):
		return answers, err
	case <-ctx.Done():
		return nil, ErrInDoubt
	}
}

// A reload during an exchange does not wait for the ledger, and loses nothing that the
// exchange grants: the exchange ends before the next ledger is asked.
func TestAReloadWithinAnExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &latentLedger{new(testLedger), time.Second}
		l := opened(t, Options{})
		ask := Ask{limitOf("l", Ceiling{Requests, 100, Window{24 * time.Hour}}), "ada"}
		l.SetLedger("w", ledger)
		use(l, ask, 3)
		synctest.Wait() // the exchange has begun
		begun := time.Now()
		for range 3 {
			l.SetLedger("w", &mortalLedger{testLedger: ledger.testLedger})
			use(l, ask, 1)
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("reloads took %s", took)
		}
		time.Sleep(3 * idleAfter)
		synctest.Wait()
		if got := ledger.only(t); got.taken != got.used || got.used < 5 {
			t.Errorf("%+v: a lease is lost", got)
		}
	})
}

// A process that ends does not wait for a ledger that hangs, however often it was
// reloaded before.
func TestAProcessThatEndsWithinAnExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &latentLedger{new(testLedger), time.Hour}
		ask := Ask{limitOf("l", Ceiling{Requests, 100, Window{24 * time.Hour}}), "ada"}
		for reloads := range 3 {
			l := openOn(Options{}, journal.Options{})
			l.SetLedger("w", ledger)
			use(l, ask, 3)
			synctest.Wait()
			for range reloads {
				l.SetLedger("w", ledger)
			}
			begun := time.Now()
			mustClose(t, l)
			if took := time.Since(begun); took > finishTimeout {
				t.Errorf("%d reloads: the end took %s", reloads, took)
			}
		}
	})
}

// If a reload raises a ceiling, further calls pass at once; if it lowers it, calls are
// refused at once, whatever the other processes have.
func TestACeilingThatAReloadChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hour()
		ledger := new(testLedger)
		l, other := opened(t, Options{}), opened(t, Options{})
		l.SetLedger("w", ledger)
		other.SetLedger("w", ledger)
		ceiling := func(requests int64) Ask {
			return Ask{limitOf("l", Ceiling{Requests, requests, Window{time.Hour}}), "ada"}
		}
		for range 3 {
			burst(t.Context(), 50, ceiling(10), l)
			settle()
		}
		if passed, _ := burst(t.Context(), 50, ceiling(30), l); passed != 20 {
			t.Errorf("%d passed after the ceiling was raised by 20", passed)
		}
		if passed, _ := burst(t.Context(), 50, ceiling(10), other); passed > 1 {
			t.Errorf("%d passed where it was not, want a lease on credit", passed)
		}
		settle()
		if passed, _ := burst(t.Context(), 50, ceiling(20), l); passed != 0 {
			t.Errorf("%d passed after it was lowered", passed)
		}
		if passed, _ := burst(t.Context(), 50, ceiling(40), other); passed < 8 || passed > 10 {
			t.Errorf("%d of the 10 that are left passed after it was raised there", passed)
		}
		time.Sleep(idleAfter + idleEvery) // the last use may be reported when the counter is idle
		settle()
		if got := ledger.only(t); got.taken > 41 || got.used != got.taken {
			t.Errorf("%+v", got)
		}
	})
}
