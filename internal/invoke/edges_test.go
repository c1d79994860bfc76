package invoke

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// unhurried is a provider that ignores its context: it still sends the piece
// that it had ready when it was cancelled.
type unhurried struct {
	after time.Duration // before its first piece
	then  func()        // called with its first piece; may be nil
	said  bool
}

func (p *unhurried) Invoke(context.Context, *providers.Request) (providers.Stream, error) {
	p.said = false
	return p, nil
}

func (p *unhurried) Next() (providers.Delta, error) {
	if p.said {
		return providers.Delta{}, errors.New("read on a cancelled request")
	}
	time.Sleep(p.after)
	p.said = true
	if p.then != nil {
		p.then()
	}
	return providers.Delta{Content: "late"}, nil
}

func (p *unhurried) Result() providers.Result { return providers.Result{} }
func (p *unhurried) Close() error             { return nil }

// The time is up while the first piece arrives: the piece is not handed on,
// because what would follow it was cancelled.
func TestAFirstPieceThatComesWithTheTimeoutIsNotHandedOn(t *testing.T) {
	for _, after := range []time.Duration{0, time.Nanosecond} { // beyond the timeout
		synctest.Test(t, func(t *testing.T) {
			c := &Call{
				Targets: []Target{target("a", &unhurried{after: time.Second + after}), target("b", scripted(says("fine")))},
				Stream:  true, Policy: Policy{FirstToken: time.Second},
			}
			r, err, out := run(t, c)
			if err != nil || out.text() != "fine" || r.Attempts[0].Code != string(Slow) {
				t.Errorf("%s: error %v, answer %q, attempts %v", after, err, out.text(), classesOf(r))
			}
		})
	}
}

// The caller leaves while the first piece, or the whole answer, arrives.
func TestNothingIsHandedToACallerThatLeft(t *testing.T) {
	for _, stream := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		p := &unhurried{then: cancel}
		var provider providers.Provider = p
		if !stream {
			provider = whole{p}
		}
		var out caller
		_, err := NewEngine().Invoke(ctx, &Call{Targets: []Target{target("a", provider)}, Stream: stream}, out.emit)
		e, _ := errors.AsType[*Error](err)
		if e == nil || e.Class != ClientGone || e.Committed || len(out.pieces) != 0 {
			t.Errorf("stream=%v: error %+v, pieces %q", stream, err, out.pieces)
		}
	}
}

// whole is an unhurried provider's answer in one piece, complete.
type whole struct{ *unhurried }

func (p whole) Invoke(ctx context.Context, req *providers.Request) (providers.Stream, error) {
	_, err := p.unhurried.Invoke(ctx, req)
	return p, err
}

func (p whole) Next() (providers.Delta, error) {
	if p.said {
		return providers.Delta{}, io.EOF
	}
	return p.unhurried.Next()
}

// TestAnAnswerThatIsNotAwaitedIsPaidFor ends attempts whose providers have said nothing
// yet: they may be at work, and bill it.
func TestAnAnswerThatIsNotAwaitedIsPaidFor(t *testing.T) {
	for _, test := range []struct {
		name   string
		leaves time.Duration
		policy Policy
		class  Class
	}{
		{"the caller leaves", time.Second, Policy{}, ClientGone},
		{"no time is left", time.Hour, Policy{Total: time.Second}, Deadline},
		{"no first token", time.Hour, Policy{FirstToken: time.Second, Retries: retries(0)}, Slow},
	} {
		for _, stream := range []bool{false, true} {
			if test.class == Slow && !stream {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer time.AfterFunc(test.leaves, cancel).Stop()
				c := &Call{Targets: []Target{target("a", scripted(script{hang: true}))}, Messages: []providers.Message{{Content: "1234"}}, Stream: stream, Policy: test.policy}
				var out caller
				r, _ := NewEngine().Invoke(ctx, c, out.emit)
				if a := r.Attempts[0]; a.Code != string(test.class) || tokensOf(a) != "9+0" || a.Usage.TotalTokens != 9 || !a.Estimated {
					t.Errorf("%s, stream %t: %+v", test.name, stream, a)
				}
			})
		}
	}
}

// What ended the call itself decides, whatever failed before.
func TestTheDeadlineDecides(t *testing.T) {
	for name, before := range map[string]error{
		"error":     status(500),
		"rejected":  status(400),
		"bad key":   status(401),
		"no answer": &providers.ConnectError{Err: errors.New("refused")},
	} {
		for _, stream := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				c := &Call{
					Targets: []Target{target("a", scripted(fails(before))), target("b", scripted(script{hang: true}))}, Stream: stream,
					Policy: Policy{Total: 5 * time.Second},
				}
				r, err, _ := run(t, c)
				if err == nil || err.Class != Deadline || err.Code != wire.UpstreamTimeout || r.Duration != 5*time.Second {
					t.Errorf("%s: error %+v after %s", name, err, r.Duration)
				}
			})
		}
	}
}

// Failures before a silence do not add to those after it: the slots of a round
// that is over hold until they are written again.
func TestTheBreakerForgetsAfterHalfAMinute(t *testing.T) {
	for silence := range 100 {
		synctest.Test(t, func(t *testing.T) {
			e := NewEngine()
			for range minAnswers - 1 {
				admissionTo(e, "a").failed(time.Now(), Transient, 0, "")
			}
			time.Sleep(time.Duration(silence) * time.Second)
			admissionTo(e, "a").failed(time.Now(), Transient, 0, "")
			ejected := !admissionTo(e, "a").sound(time.Now())
			// In between, the result depends on the start of the slots.
			if silence <= 25 && !ejected || silence >= 30 && ejected {
				t.Errorf("after %d s: ejected=%v", silence, ejected)
			}
		})
	}
}

// All targets cool, and the one that is tried all the same answers: it has not
// to wait until its cool-down is over.
func TestASuccessEndsACoolDown(t *testing.T) {
	for _, stream := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a := scripted(fails(&providers.Error{Status: 429, RetryAfter: time.Minute}), says("a"))
			b := scripted(fails(&providers.Error{Status: 429, RetryAfter: time.Hour}), says("b"))
			c := &Call{Targets: []Target{target("a", a), target("b", b)}, Stream: stream}
			e := NewEngine()
			runOn(t, e, c)
			for range 3 {
				r, err, out := runOn(t, e, c)
				if err != nil || out.text() != "a" {
					t.Errorf("error %v, answer %q", err, out.text())
				}
				if !e.health.get("a", "a-model").sound(time.Now()) {
					t.Errorf("still cooling; skipped %v", r.Skipped)
				}
			}
		})
	}
}

// A long good time pays for no more than a bucketful of retries.
func TestARetryBucketIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEngine()
		p := scripted(says("a"))
		c := &Call{Targets: []Target{target("a", p), target("b", scripted(says("b")))}, Policy: Policy{Retries: retries(3), MaxAttempts: 8}}
		for range 1000 {
			runOn(t, e, c)
		}
		p.mu.Lock()
		p.scripts = []script{fails(status(500))}
		p.mu.Unlock()
		before := p.calls()
		const requests = 15
		for range requests {
			time.Sleep(15 * time.Second) // too few failures for the breaker
			runOn(t, e, c)
		}
		if extra := p.calls() - before - requests; extra != bucketSize {
			t.Errorf("%d retries", extra)
		}
	})
}
