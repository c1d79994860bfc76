package invoke

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// admissionTo is a call's admission to the target of that name, not let in yet.
func admissionTo(e *Engine, name string) *admission {
	return &admission{health: e.health.get(name, name+"-model")}
}

func isLeftAlone(err error) bool {
	_, ok := errors.AsType[*LeftAlone](err)
	return ok
}

// eject makes the engine eject the target.
func eject(t *testing.T, e *Engine, tgt Target) {
	t.Helper()
	h := admissionTo(e, tgt.Name)
	for range minAnswers {
		h.failed(time.Now(), Transient, 0, "")
	}
	if h.admits(time.Now()) {
		t.Fatal("the target is not ejected")
	}
}

func TestBreakerOpensAtHalfOfTwenty(t *testing.T) {
	for _, test := range []struct {
		ok, failed int
		apart      time.Duration
		open       bool
	}{
		{0, 19, 0, false},
		{0, 20, 0, true},
		{10, 10, 0, true},
		{11, 10, 0, false},
		{100, 50, 0, false},
		{0, 40, 2 * time.Second, false}, // never 20 within 30 s
		{0, 40, time.Second, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := NewEngine()
			h := e.health.get("p", "p-model")
			for range test.ok {
				admissionTo(e, "p").answered(time.Now())
			}
			for range test.failed {
				time.Sleep(test.apart)
				admissionTo(e, "p").failed(time.Now(), Transient, 0, "")
			}
			if open := !h.sound(time.Now()); open != test.open {
				t.Errorf("%d answers, %d failures %s apart: open=%v", test.ok, test.failed, test.apart, open)
			}
		})
	}
}

func TestOnlyTheTargetsOwnFailuresCount(t *testing.T) {
	for _, row := range Classes() {
		synctest.Test(t, func(t *testing.T) {
			h := admissionTo(NewEngine(), "p")
			for range 10 * minAnswers {
				h.failed(time.Now(), row.Class, 0, "")
			}
			if open := !h.until.IsZero(); open != row.Counts {
				t.Errorf("%s: open=%v", row.Class, open)
			}
			if cools := !h.cool.IsZero(); cools != row.Cools {
				t.Errorf("%s: cools=%v", row.Class, cools)
			}
		})
	}
}

func TestHalfOpenLetsOneThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEngine()
		tgt := target("a", nil)
		eject(t, e, tgt)
		one, other := admissionTo(e, tgt.Name), admissionTo(e, tgt.Name)
		time.Sleep(probeEvery)
		for _, took := range []time.Duration{0, time.Second, 10 * time.Second, 10 * time.Second, time.Hour, 0} {
			pause := min(max(probeEvery, 2*took), maxPause)
			if !one.admit(time.Now()) || other.admit(time.Now()) {
				t.Fatalf("not exactly one is let in")
			}
			time.Sleep(took)
			// A call that was admitted before, or in spite of it, does not decide.
			for _, class := range []Class{Transient, ClientGone, RateLimit} {
				other.failed(time.Now().Add(-time.Hour), class, 0, "")
			}
			other.release()
			if other.admit(time.Now()) {
				t.Fatal("a second one is let in while the first runs")
			}
			one.failed(time.Now(), Connect, 0, "")
			time.Sleep(pause - time.Millisecond)
			if one.admit(time.Now()) {
				t.Fatalf("let in less than %s after a try of %s", pause, took)
			}
			time.Sleep(time.Millisecond)
		}
		if !one.admit(time.Now()) {
			t.Fatal("not let in")
		}
		one.failed(time.Now(), ClientGone, 0, "")
		if !one.admit(time.Now()) {
			t.Fatal("a caller that went away at once leaves the target closed")
		}
		time.Sleep(3 * time.Second)
		one.failed(time.Now(), ClientGone, 0, "")
		time.Sleep(3*time.Second - time.Nanosecond)
		if one.admit(time.Now()) {
			t.Fatal("a caller that waited for long is followed at once")
		}
		time.Sleep(time.Nanosecond)
		one.admit(time.Now())
		one.answered(time.Now())
		for range 2 { // a probe is let in alone
			if !one.admit(time.Now()) {
				t.Error("a success does not close the breaker")
			}
		}
	})
}

func TestAPanicDoesNotKeepTheProbe(t *testing.T) {
	for name, of := range map[string]struct {
		provider providers.Provider
		emit     func(providers.Delta) error
	}{
		"the caller's":   {scripted(says("x")), func(providers.Delta) error { panic("of the caller") }},
		"the provider's": {panicking{}, func(providers.Delta) error { return nil }},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := NewEngine()
			tgt := target("a", of.provider)
			eject(t, e, tgt)
			time.Sleep(probeEvery)
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s panic is swallowed", name)
					}
				}()
				e.Invoke(t.Context(), &Call{Targets: []Target{tgt}}, of.emit)
			}()
			if !admissionTo(e, tgt.Name).admit(time.Now()) {
				t.Errorf("after %s panic the target stays closed", name)
			}
		})
	}
}

func TestCoolDowns(t *testing.T) {
	for _, test := range []struct {
		err  error
		cool time.Duration
	}{
		{status(429), 5 * time.Second},
		{&providers.Error{Status: 429, RetryAfter: 30 * time.Second}, 30 * time.Second},
		{&providers.Error{Status: 429, RetryAfter: 24 * time.Hour}, 10 * time.Minute},
		{status(402), time.Minute},
		{status(401), time.Minute},
		{status(404), time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := NewEngine()
			first := scripted(fails(test.err), says("first"))
			second := scripted(says("second"))
			c := &Call{Targets: []Target{target("a", first), target("b", second)}}
			call := func(want string) Result {
				t.Helper()
				r, err, out := runOn(t, e, c)
				if err != nil || out.text() != want {
					t.Errorf("%v: error %v, answer %q, want %q", test.err, err, out.text(), want)
				}
				return r
			}
			call("second")
			time.Sleep(test.cool - time.Millisecond)
			if r := call("second"); len(r.Skipped) != 1 || !isLeftAlone(r.Skipped[0].Reason) || len(r.Attempts) != 1 {
				t.Errorf("%v: result %+v", test.err, r)
			}
			time.Sleep(2 * time.Millisecond)
			call("first")
		})
	}
}

func TestAllCoolingStillOneTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEngine()
		a, b := scripted(fails(&providers.Error{Status: 429, RetryAfter: time.Hour})), scripted(fails(&providers.Error{Status: 429, RetryAfter: time.Minute}))
		c := &Call{Targets: []Target{target("a", a), target("b", b)}}
		runOn(t, e, c)
		a.scripts, b.scripts = []script{says("a")}, []script{says("b")}
		before := a.calls() + b.calls()
		r, err, out := runOn(t, e, c)
		if err != nil || out.text() != "b" || a.calls()+b.calls() != before+1 || r.Served != 1 || len(r.Skipped) != 1 {
			t.Errorf("error %v, answer %q, result %+v", err, out.text(), r)
		}
	})
}

func TestRetryAfterOfTheWholeIsTheSoonest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := scripted(fails(&providers.Error{Status: 429, RetryAfter: time.Hour})), scripted(fails(&providers.Error{Status: 429, RetryAfter: 40 * time.Second}))
		_, err, _ := run(t, &Call{Targets: []Target{target("a", a), target("b", b)}})
		if err.Code != wire.UpstreamRateLimited || err.RetryAfter != 40*time.Second {
			t.Errorf("%v, retry after %s", err, err.RetryAfter)
		}
	})
}

// TestSingleTargetAtThirtyPercentFaults is the promise of 99.9 % with six
// attempts, at the calls that this takes at least: 1/(1-0.3) = 1.43.
func TestSingleTargetAtThirtyPercentFaults(t *testing.T) {
	faults := []error{status(500), status(429), &providers.ConnectError{Err: errors.New("reset")}, &providers.Error{Kind: providers.Truncated}}
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		p := &chance{random: random, rate: 0.3, faults: faults}
		e := NewEngine()
		const requests = 5000
		failed := 0
		for range requests {
			time.Sleep(10 * time.Millisecond)
			c := &Call{Targets: []Target{target("a", p)}, Stream: random.IntN(2) == 0, Policy: Policy{MaxAttempts: 6, Retries: retries(5)}}
			if _, err, _ := runOn(t, e, c); err != nil {
				failed++
			}
		}
		perRequest := float64(p.calls) / requests
		t.Logf("%d of %d failed, %.3f calls each", failed, requests, perRequest)
		if failed > requests/1000 || perRequest > 1.45 {
			t.Errorf("%d of %d failed, %.3f calls each", failed, requests, perRequest)
		}
	})
}

func TestFallbackAtThirtyPercentFaultsAnswersAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(3, 4))
		p := &chance{random: random, rate: 0.3, faults: []error{status(500), status(429)}}
		e := NewEngine()
		for i := range 3000 {
			time.Sleep(10 * time.Millisecond)
			c := &Call{Targets: []Target{target("a", p), target("b", scripted(says("x")))}, Stream: true}
			if _, err, _ := runOn(t, e, c); err != nil {
				t.Fatalf("request %d: %v", i, err)
			}
		}
	})
}

func TestRetriesStayNearAFifthWhereAnotherTargetCanTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(5, 6))
		p := &chance{random: random, rate: 0.45, faults: []error{status(500)}}
		e := NewEngine()
		const requests = 3000
		for range requests {
			time.Sleep(10 * time.Millisecond)
			c := &Call{Targets: []Target{target("a", p), target("b", scripted(says("x")))}, Policy: Policy{Retries: retries(3), MaxAttempts: 8}}
			if _, err, _ := runOn(t, e, c); err != nil {
				t.Fatal(err)
			}
		}
		if perRequest := float64(p.calls) / requests; perRequest > 1.25 {
			t.Errorf("%.3f calls a request", perRequest)
		}
	})
}

func TestEverythingDown(t *testing.T) {
	for _, targets := range []int{1, 3} {
		t.Run(fmt.Sprint(targets), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := NewEngine()
				c := &Call{Policy: Policy{MaxAttempts: 6, Retries: retries(5)}}
				down := scripted(fails(&providers.ConnectError{Err: errors.New("refused")}))
				for i := range targets {
					c.Targets = append(c.Targets, target(string(rune('a'+i)), down))
				}
				for range 100 {
					runOn(t, e, c)
				}
				const requests = 500
				before, slow := down.calls(), 0
				for range requests {
					time.Sleep(20 * time.Millisecond)
					r, err, _ := runOn(t, e, c)
					if err == nil || err.Code != wire.UpstreamUnavailable || err.RetryAfter < time.Second {
						t.Fatalf("error %+v", err)
					}
					if r.Duration > 50*time.Millisecond {
						slow++
					}
				}
				// The remainder of a provider's retries is used up once.
				if slow > targets*bucketSize {
					t.Errorf("%d of %d calls failed slowly", slow, requests)
				}
				if perRequest := float64(down.calls()-before) / requests; perRequest > 1.2 {
					t.Errorf("%.3f calls a request", perRequest)
				}
				// And it comes back.
				down.mu.Lock()
				down.scripts = []script{says("back")}
				down.mu.Unlock()
				if _, err, _ := runOn(t, e, c); err != nil {
					t.Errorf("after the recovery: %v", err)
				}
			})
		})
	}
}

// chance is a provider that fails at random.
type chance struct {
	mu     sync.Mutex
	random *rand.Rand
	rate   float64
	faults []error
	calls  int
}

func (p *chance) Invoke(ctx context.Context, req *providers.Request) (providers.Stream, error) {
	p.mu.Lock()
	p.calls++
	fault := p.random.Float64() < p.rate
	err := p.faults[p.random.IntN(len(p.faults))]
	p.mu.Unlock()
	s := says("fine")
	if fault {
		if e, ok := errors.AsType[*providers.Error](err); ok && e.Kind == providers.Truncated {
			s = script{steps: []step{{err: err}}}
		} else {
			s = fails(err)
		}
	}
	return scripted(s).Invoke(ctx, req)
}

func TestHealthIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEngine()
		for i := range 3 * maxHealth {
			e.health.get("p", fmt.Sprint(i))
			if i%1000 == 0 {
				time.Sleep(healthIdle / 4)
			}
		}
		if n := len(e.health.targets); n > maxHealth {
			t.Errorf("%d targets are remembered", n)
		}
	})
}

func TestConcurrentCalls(t *testing.T) {
	e := NewEngine()
	p := &chance{random: rand.New(rand.NewPCG(7, 8)), rate: 0.1, faults: []error{status(400)}}
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			for range 100 {
				var out caller
				_, err := e.Invoke(t.Context(), &Call{Targets: []Target{target("a", p), target("b", scripted(says("x")))}, Stream: true}, out.emit)
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
}

// A reload makes new providers and new calls; the health of a target stays.
func TestHealthOutlivesTheProvidersOfAConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEngine()
		call := func(a, b *fake) (Result, string) {
			t.Helper()
			r, err, out := runOn(t, e, &Call{Targets: []Target{target("a", a), target("b", b)}})
			if err != nil {
				t.Fatal(err)
			}
			return r, out.text()
		}
		for range minAnswers {
			call(scripted(fails(status(500))), scripted(says("b")))
		}
		if r, text := call(scripted(says("a")), scripted(says("b"))); text != "b" || len(r.Skipped) != 1 {
			t.Errorf("answer %q, skipped %v", text, r.Skipped)
		}
		time.Sleep(probeEvery)
		if _, text := call(scripted(says("a")), scripted(says("b"))); text != "a" {
			t.Errorf("half open: answer %q", text)
		}
	})
}
