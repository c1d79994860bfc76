package gateway

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/limit"
)

// absentLedger is a ledger whose database is unavailable.
type absentLedger struct{}

func (absentLedger) Exchange(context.Context, limit.ExchangeID, []limit.Claim) ([]limit.Answer, error) {
	return nil, errors.New("connection refused")
}

func (absentLedger) Close() error { return nil }

// An unavailable database of the limits is a condition after a minute, with the time of
// the first failure.
func TestLimitsAreNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.Open(limit.Options{})
		defer l.Close()
		time.Sleep(time.Hour)
		l.SetLedger("w", absentLedger{})
		began := time.Now()
		ask := limit.Ask{Limit: &limit.Limit{Name: "few", Ceilings: []limit.Ceiling{{Measure: limit.Requests, Most: 10, Window: limit.Month}}}}
		if _, refusal := l.Reserve("w", began, []limit.Ask{ask}, limit.Amounts{limit.Requests: 1}); refusal != nil {
			t.Fatal(refusal)
		}
		synctest.Wait()
		time.Sleep(longAway)
		if since, err := unshared(l, "w"); err != nil {
			t.Errorf("a condition since %v: %v", since, err)
		}
		time.Sleep(10 * time.Second) // the limiter tries again in this time
		if since, err := unshared(l, "w"); err == nil || !since.Equal(began) {
			t.Errorf("%v since %v, want %v", err, since, began)
		}
		if since, err := unshared(l, "other"); err != nil {
			t.Errorf("another workspace has the condition since %v: %v", since, err)
		}
	})
}
