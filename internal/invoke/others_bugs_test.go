package invoke

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// Bugs of other gateways, each with its name.

func TestNoSleepAfterTheLastAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := scripted(fails(&providers.Error{Status: 429, RetryAfter: 5 * time.Second}))
		began := time.Now()
		_, err, _ := run(t, &Call{Targets: []Target{target("a", p)}, Policy: Policy{Retries: retries(1)}})
		if took := time.Since(began); err == nil || took < 5*time.Second || took > 5500*time.Millisecond {
			t.Errorf("error %v after %s, want the one wait of 5 s", err, took)
		}
	})
}

func TestTheHintOfOneAttemptIsNotUsedForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := scripted(fails(&providers.Error{Status: 429, RetryAfter: 6 * time.Second}), fails(status(500)), says("fine"))
		r, err, _ := run(t, &Call{Targets: []Target{target("a", p)}})
		if err != nil || len(r.Attempts) != 3 {
			t.Fatalf("error %v, attempts %+v", err, r.Attempts)
		}
		if first, second := r.Attempts[1].Wait, r.Attempts[2].Wait; first < 6*time.Second || second > 500*time.Millisecond {
			t.Errorf("waits %s and %s", first, second)
		}
	})
}

// keeps is a provider that looks at the context it was given before.
type keeps struct {
	*fake
	contexts []context.Context
}

func (k *keeps) Invoke(ctx context.Context, req *providers.Request) (providers.Stream, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	k.contexts = append(k.contexts, ctx)
	return k.fake.Invoke(ctx, req)
}

func TestOneAttemptsContextDoesNotEndTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &keeps{fake: scripted(
			script{steps: []step{{say: ""}, {err: &providers.Error{Kind: providers.Reported, Status: 200}}}},
			script{steps: []step{{say: ""}}, hang: true},
			says("fine"),
		)}
		_, err, out := run(t, &Call{Targets: []Target{target("a", p)}, Stream: true})
		if err != nil || out.text() != "fine" {
			t.Errorf("error %v, answer %q", err, out.text())
		}
		for i, ctx := range p.contexts {
			if ctx.Err() == nil {
				t.Errorf("the context of attempt %d is never cancelled", i+1)
			}
		}
		if n := p.open; n != 0 {
			t.Errorf("%d streams left open", n)
		}
	})
}

func TestCallersThatGoAwayDoNotEjectATarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEngine()
		p := scripted(script{steps: []step{{say: "a"}}, hang: true})
		c := &Call{Targets: []Target{target("a", p)}, Stream: true}
		for range 200 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(100*time.Millisecond, cancel)
			var out caller
			if _, err := e.Invoke(ctx, c, out.emit); err == nil {
				t.Fatal("no error")
			}
		}
		if !e.health.get("a", "a-model").admits(time.Now()) {
			t.Error("the target is ejected")
		}
		p.scripts = []script{says("fine")}
		if _, err, _ := runOn(t, e, c); err != nil {
			t.Error(err)
		}
	})
}

func TestARetryAfterBeyondTheBudgetDoesNotBlock(t *testing.T) {
	for _, hint := range []time.Duration{9 * time.Second, time.Minute, time.Hour, 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			p := scripted(fails(&providers.Error{Status: 429, RetryAfter: hint}))
			began := time.Now()
			_, err, _ := run(t, &Call{Targets: []Target{target("a", p)}})
			if err == nil || err.Code != wire.UpstreamRateLimited || time.Since(began) != 0 || p.calls() != 1 {
				t.Errorf("%s: error %v after %s and %d calls", hint, err, time.Since(began), p.calls())
			}
			if want := min(hint, 10*time.Minute); err.RetryAfter != want {
				t.Errorf("%s: retry after %s, want %s", hint, err.RetryAfter, want)
			}
		})
	}
	// One that fits the limit but not the time that is left.
	synctest.Test(t, func(t *testing.T) {
		p := scripted(fails(&providers.Error{Status: 503, RetryAfter: 4 * time.Second}))
		began := time.Now()
		_, err, _ := run(t, &Call{Targets: []Target{target("a", p)}, Policy: Policy{Total: 4500 * time.Millisecond}})
		if err == nil || err.Code != wire.UpstreamError || time.Since(began) != 0 {
			t.Errorf("error %v after %s", err, time.Since(began))
		}
	})
}

func TestAttemptsDoNotMultiplyOverTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := scripted(fails(status(500)))
		c := &Call{Targets: []Target{target("a", p), target("b", p), target("c", p)}, Policy: Policy{Retries: retries(3)}}
		run(t, c)
		if n := p.calls(); n != DefaultMaxAttempts {
			t.Errorf("%d calls, want %d", n, DefaultMaxAttempts)
		}
	})
}

func TestTheResultNamesTheModelThatAnswered(t *testing.T) {
	answer := says("fine")
	answer.result = providers.Result{FinishReason: "stop"} // the provider does not say
	synctest.Test(t, func(t *testing.T) {
		r, err, _ := run(t, &Call{Targets: []Target{target("a", scripted(fails(status(500)))), target("b", scripted(answer))}})
		if err != nil || r.Model != "b-model" || r.Served != 1 {
			t.Errorf("error %v, model %q, served %d", err, r.Model, r.Served)
		}
		last := r.Attempts[len(r.Attempts)-1]
		if last.Provider != "b" || last.Model != "b-model" {
			t.Errorf("last attempt %+v", last)
		}
	})
}

func TestAnErrorBeforeContentIsAnErrorAndNotAnEmptyStream(t *testing.T) {
	for name, s := range map[string]script{
		"first":          {steps: []step{{err: &providers.Error{Kind: providers.Reported, Status: 200}}}},
		"after the role": {steps: []step{{say: ""}, {err: &providers.Error{Kind: providers.Reported, Status: 200}}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, err, out := run(t, &Call{Targets: []Target{target("a", scripted(s))}, Stream: true})
				if err == nil || err.Committed || err.Code != wire.UpstreamError || len(out.pieces) != 0 {
					t.Errorf("error %+v, pieces %q", err, out.pieces)
				}
				_, err, out = run(t, &Call{Targets: []Target{target("a", scripted(s)), target("b", scripted(says("fine")))}, Stream: true})
				if err != nil || out.text() != "fine" {
					t.Errorf("with a fallback: error %v, answer %q", err, out.text())
				}
			})
		})
	}
}

func TestFailuresOfTheCallItselfAreNoFailuresOfTheTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var out caller
		_, err := NewEngine().Invoke(ctx, &Call{Targets: []Target{target("a", scripted(script{hang: true}))}, Stream: true}, out.emit)
		e, _ := errors.AsType[*Error](err)
		if e == nil || e.Class != Deadline || e.Code != wire.UpstreamTimeout {
			t.Errorf("error %v", err)
		}
	})
}
