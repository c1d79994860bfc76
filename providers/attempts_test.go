package providers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestWaitIsJitteredAndBounded(t *testing.T) {
	for _, test := range []struct {
		n        int
		hint     time.Duration
		min, max time.Duration
	}{
		{0, 0, 0, 250 * time.Millisecond},
		{1, 0, 0, 500 * time.Millisecond},
		{4, 0, 0, 4 * time.Second},
		{5, 0, 0, 8 * time.Second},
		{1000, 0, 0, 8 * time.Second},
		{0, time.Second, time.Second, 1100 * time.Millisecond},
		{3, 100 * time.Millisecond, 100 * time.Millisecond, 2 * time.Second},
		{0, -time.Hour, 0, 250 * time.Millisecond},
	} {
		low, high := time.Hour, time.Duration(0)
		for range 500 {
			w := Wait(test.n, test.hint)
			low, high = min(low, w), max(high, w)
		}
		if low < test.min || high > test.max {
			t.Errorf("retry %d, hint %s: waits from %s to %s, want %s to %s", test.n, test.hint, low, high, test.min, test.max)
		}
		if spread := test.max - test.min; high-low < spread/2 {
			t.Errorf("retry %d, hint %s: waits from %s to %s are hardly spread", test.n, test.hint, low, high)
		}
	}
}

func TestAgain(t *testing.T) {
	for _, test := range []struct {
		name             string
		retries, reserve int
		deadline         time.Duration
		hint             time.Duration
		denied           bool
		want             bool
	}{
		{"allowed", 1, 0, time.Minute, 0, false, true},
		{"no retries", 0, 0, time.Minute, 0, false, false},
		{"attempts are reserved", 1, 4, time.Minute, 0, false, false},
		{"more attempts than are reserved", 1, 3, time.Minute, 0, false, true},
		{"not permitted", 1, 0, time.Minute, 0, true, false},
		{"the hint fits", 1, 0, time.Minute, 5 * time.Second, false, true},
		{"the hint is too long", 1, 0, time.Hour, 9 * time.Second, false, false},
		{"the hint leaves no time", 1, 0, 5 * time.Second, 5 * time.Second, false, false},
		{"the deadline is past", 1, 0, -time.Second, 0, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.deadline)
				defer cancel()
				a := NewAttempts(5)
				restarted := time.Duration(-1)
				a.Begin(Plan{
					Retries: test.retries, Reserve: test.reserve,
					Permit:  func() bool { return !test.denied },
					Restart: func(wait time.Duration) { restarted = wait },
				})
				a.End("transient", 500, errors.New("x"))
				wait, got := a.Again(ctx, test.hint)
				if got != test.want {
					t.Errorf("%v, want %v", got, test.want)
				}
				if got && (restarted != wait || wait < test.hint) || !got && restarted != -1 {
					t.Errorf("wait %s, restarted with %s", wait, restarted)
				}
			})
		})
	}
}

func TestRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAttempts(4)
		ctx := WithAttempts(t.Context(), a)
		if AttemptsFrom(ctx) != a || AttemptsFrom(t.Context()) != nil {
			t.Fatal("the budget does not travel in the context")
		}
		broken := errors.New("broken")
		failed := 0
		a.Begin(Plan{Target: 2, Provider: "p", Model: "m", Retries: 3, Failed: func() { failed++ }})
		time.Sleep(time.Second)
		wait, ok := a.Repeat(ctx, broken)
		if !ok || a.Tries() != 2 || failed != 1 {
			t.Fatalf("%v, %d tries, %d failures told", ok, a.Tries(), failed)
		}
		time.Sleep(wait + 2*time.Second)
		a.Content()
		time.Sleep(3 * time.Second)
		a.End("", 200, nil)
		a.End("late", 500, broken) // nothing is open
		want := []Attempt{
			{Target: 2, Provider: "p", Model: "m", Class: "connect", Duration: time.Second, Err: broken},
			{Target: 2, Provider: "p", Model: "m", Status: 200, Wait: wait, Duration: 5 * time.Second, FirstToken: 2 * time.Second},
		}
		if diff := cmp.Diff(want, a.Records(), cmpopts.EquateErrors()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

func TestAnAttemptThatDidNotBeginIsNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAttempts(2)
		a.Begin(Plan{Retries: 1})
		a.End("rate_limit", 429, nil)
		if _, ok := a.Again(t.Context(), time.Second); !ok {
			t.Fatal("no other attempt")
		}
		a.End("client_gone", 0, context.Canceled)
		if got := a.Records(); len(got) != 1 {
			t.Errorf("records %+v", got)
		}
		if !a.Begin(Plan{}) {
			t.Error("the attempt that was not made is used up")
		}
	})
}

func TestTheBudgetIsNeverOverdrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 12).Draw(t, "limit")
		targets := rapid.IntRange(1, 12).Draw(t, "targets")
		a := NewAttempts(limit)
		tried := 0
		for i := range targets {
			if !a.Begin(Plan{Target: i, Retries: rapid.IntRange(0, 9).Draw(t, "retries"), Reserve: targets - 1 - i}) {
				break
			}
			tried++
			for {
				a.mu.Lock()
				a.started = time.Now() // the wait is not what is tested
				a.mu.Unlock()
				a.End("x", 0, nil)
				if _, ok := a.Again(context.Background(), 0); !ok {
					break
				}
			}
		}
		if n := len(a.Records()); n > limit {
			t.Fatalf("%d attempts of %d", n, limit)
		}
		if want := min(limit, targets); tried < want {
			t.Fatalf("%d targets tried, want %d", tried, want)
		}
	})
}

func TestErrorText(t *testing.T) {
	cause := errors.New("connection reset")
	for _, test := range []struct {
		err  error
		want string
	}{
		{&Error{Provider: "openai", Status: 429, Type: "requests", Code: "rate_limit_exceeded", Message: "Slow down."}, "openai: status 429 requests rate_limit_exceeded: Slow down."},
		{&Error{Provider: "openai", Kind: Truncated, Status: 200, Err: cause}, "openai: truncated 200: connection reset"},
		{&Error{Provider: "x", Kind: Refused}, "x: refused"},
		{&ConnectError{Err: cause}, "no answer: connection reset"},
	} {
		if got := test.err.Error(); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
	if !errors.Is(&Error{Err: cause}, cause) || !errors.Is(&ConnectError{Err: cause}, cause) {
		t.Error("the cause is lost")
	}
}
