package limit

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// inspected returns a text of Inspect's result: for each ceiling the subject, the used
// amount and the amount set aside; for a lease also the use here, whether some is left,
// and whether the ledger has answered.
func inspected(l *Limiter, ask Ask) (text string) {
	standings, leases := l.Inspect("w", time.Now(), ask)
	for i, s := range standings {
		text += fmt.Sprintf("%s %d+%d", s.Subject, s.Used, s.Reserved)
		if lease := leases[i]; lease != nil {
			// How much is left depends on when the ledger was asked.
			text += fmt.Sprintf(" here %d left %t %t", lease.Used, lease.Left > 0 && lease.Left <= 10, lease.Known)
		}
		text += "; "
	}
	return text
}

func checkInspected(t *testing.T, l *Limiter, ask Ask, want string) {
	t.Helper()
	if got := inspected(l, ask); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// Two limiters share a limit with leases of five.
func TestInspectingLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		ledger := &testLedger{fault: func() error { <-answer; return nil }}
		a, b := opened(t, Options{}), opened(t, Options{})
		ask := Ask{limitOf("l", Ceiling{Requests, 100, Window{time.Hour}}, Ceiling{Measure: InFlight, Most: 9}), "ada"}
		checkInspected(t, a, ask, "ada 0+0; ada 0+0; ")
		a.SetLedger("w", ledger)
		b.SetLedger("w", ledger)
		checkInspected(t, a, ask, "ada 0+0 here 0 left false false; ada 0+0; ")
		use(a, ask, 3)
		synctest.Wait() // the ledger has not answered
		checkInspected(t, a, ask, "ada 3+0 here 3 left false false; ada 0+0; ")
		close(answer)
		synctest.Wait()
		checkInspected(t, a, ask, "ada 3+0 here 3 left true true; ada 0+0; ")
		time.Sleep(2 * idleAfter) // until it returns its unused lease
		checkInspected(t, a, ask, "ada 3+0 here 3 left false true; ada 0+0; ")
		use(b, ask, 2)
		r, refusal := b.Reserve("w", time.Now(), []Ask{ask}, Amounts{Requests: 1})
		if refusal != nil {
			t.Fatal(refusal)
		}
		time.Sleep(time.Second)
		checkInspected(t, b, ask, "ada 5+1 here 2 left true true; ada 1+0; ")
		r.Settle(time.Now(), Amounts{Requests: 1})
		checkInspected(t, a, Ask{ask.Limit, "eve"}, "eve 0+0 here 0 left false false; eve 0+0; ")
		time.Sleep(time.Hour)
		checkInspected(t, b, ask, "ada 0+0 here 0 left false false; ada 0+0; ")
	})
}

// A subject without its own counters is shown as Others.
func TestInspectingOthers(t *testing.T) {
	l := opened(t, Options{MaxMemory: 2 * (accountBytes + cellBytes)})
	limit := limitOf("l", Ceiling{Requests, 100, Month})
	for _, subject := range []string{"a", "b", "c", "c"} {
		use(l, Ask{limit, subject}, 1)
	}
	checkInspected(t, l, Ask{limit, "a"}, "a 1+0; ")
	checkInspected(t, l, Ask{limit, "c"}, "* 2+0; ")
	checkInspected(t, l, Ask{limitOf("other", limit.Ceilings...), "a"}, "a 0+0; ")
}
