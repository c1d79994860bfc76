package invoke

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/trace"
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
			w := retryWait(test.n, test.hint)
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

// newAttempt is an attempt at the first of so many targets, on its own.
func newAttempt(policy Policy, targets int) *attempt {
	k := &call{Call: new(Call), engine: NewEngine(), policy: policy.withDefaults(targets), started: time.Now(), usable: make([]usable, 1)}
	k.left, k.deadline = k.policy.MaxAttempts, k.started.Add(k.policy.Total)
	return &attempt{
		lane: &lane{call: k}, target: &Target{Name: "p", Model: "m"}, later: targets - 1,
		health: &admission{health: k.engine.health.get("p", "m")},
	}
}

func TestAgain(t *testing.T) {
	for _, test := range []struct {
		name           string
		retries, later int
		deadline       time.Duration
		hint           time.Duration
		denied         bool
		want           bool
	}{
		{"allowed", 1, 0, time.Minute, 0, false, true},
		{"no retries", 0, 0, time.Minute, 0, false, false},
		{"attempts are reserved", 1, 4, time.Minute, 0, false, false},
		{"more attempts than are reserved", 1, 3, time.Minute, 0, false, true},
		{"not permitted", 1, 3, time.Minute, 0, true, false},
		{"the hint fits", 1, 0, time.Minute, 5 * time.Second, false, true},
		{"the hint is too long", 1, 0, time.Hour, 9 * time.Second, false, false},
		{"the hint leaves no time", 1, 0, 5 * time.Second, 5 * time.Second, false, false},
		{"the deadline is past", 1, 0, -time.Second, 0, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.deadline)
				defer cancel()
				a := newAttempt(Policy{MaxAttempts: 5, Retries: retries(test.retries)}, test.later+1)
				began, fired := time.Now(), make(chan time.Duration, 1)
				a.limit = time.Hour
				a.clock = startedClock(context.Background(), began.Add(24*time.Hour), a.limit/2, errWhole)
				context.AfterFunc(a.clock, func() { fired <- time.Since(began) })
				for test.denied && a.health.bucket.draw() {
				}
				a.take()
				a.end(failed{class: Transient, status: 500}, used{})
				wait, got := a.again(ctx, test.hint)
				if got != test.want {
					t.Errorf("%v, want %v", got, test.want)
				}
				// A retry has its full time after the wait.
				if after := <-fired; got && (after != wait+a.limit || wait < test.hint) || !got && after != a.limit/2 {
					t.Errorf("wait %s, the timer fired after %s", wait, after)
				}
				if left := a.left; got && left != 3 || !got && left != 4 {
					t.Errorf("%d attempts are left", left)
				}
			})
		})
	}
}

func TestRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAttempt(Policy{Retries: retries(3)}, 1)
		time.Sleep(time.Minute)
		a.take()
		time.Sleep(time.Second)
		refused := &providers.ConnectError{Err: errors.New("refused")}
		wait, ok := a.Repeat(t.Context(), refused)
		told := 0
		for i := range a.health.slots {
			told += a.health.slots[i].failed
		}
		if !ok || a.Tries() != 2 || told != 1 {
			t.Fatalf("%v, %d tries, %d failures reported", ok, a.Tries(), told)
		}
		time.Sleep(wait + 2*time.Second)
		a.hasContent()
		time.Sleep(3 * time.Second)
		a.end(failed{status: 200}, used{usage: providers.Usage{PromptTokens: 3, CompletionTokens: 4, CachedTokens: 2}})
		a.end(failed{class: Transient, status: 500}, used{usage: providers.Usage{PromptTokens: 5}}) // nothing is open
		want := []Attempt{
			{Attempt: trace.Attempt{Provider: "p", Model: "m", Started: time.Minute, Code: "connect", Latency: time.Second, Error: refused.Error()}, Err: refused},
			{Attempt: trace.Attempt{
				Provider: "p", Model: "m", Started: time.Minute + time.Second + wait, Status: 200, Wait: wait, Latency: 5 * time.Second,
				FirstToken: 2 * time.Second, PromptTokens: 3, CompletionTokens: 4, UsageDetails: trace.UsageDetails{CachedTokens: 2},
			}, Usage: providers.Usage{PromptTokens: 3, CompletionTokens: 4, CachedTokens: 2}},
		}
		if diff := cmp.Diff(want, a.records, cmp.Comparer(func(a, b error) bool { return a == b })); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

func TestAnAttemptThatDidNotBeginIsNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAttempt(Policy{MaxAttempts: 2, Retries: retries(1)}, 1)
		a.take()
		a.end(failed{class: RateLimit, status: 429}, used{})
		if _, ok := a.again(t.Context(), time.Second); !ok {
			t.Fatal("no other attempt")
		}
		a.end(failed{class: ClientGone, status: 0}, used{})
		if len(a.records) != 1 {
			t.Errorf("records %+v", a.records)
		}
		if !a.take() {
			t.Error("the attempt that was not made is used up")
		}
	})
}

func TestTheBudgetIsNeverOverdrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 12).Draw(t, "limit")
		targets := rapid.IntRange(1, 12).Draw(t, "targets")
		a := newAttempt(Policy{}, 1)
		a.left = limit
		tried := 0
		for i := range targets {
			n := rapid.IntRange(0, 9).Draw(t, "retries")
			a = &attempt{lane: a.lane, target: a.target, health: a.health, later: targets - 1 - i}
			a.policy.Retries = &n
			if !a.take() {
				break
			}
			tried++
			for {
				a.beganAt = time.Now() // the test is not about the wait
				a.end(failed{class: Unknown, status: 0}, used{})
				if _, ok := a.again(context.Background(), 0); !ok {
					break
				}
			}
		}
		if n := len(a.records); n > limit {
			t.Fatalf("%d attempts of %d", n, limit)
		}
		if want := min(limit, targets); tried < want {
			t.Fatalf("%d targets tried, want %d", tried, want)
		}
	})
}
