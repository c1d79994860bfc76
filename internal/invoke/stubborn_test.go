package invoke

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// stubborn is a provider that knows nothing of contexts: at the place named it
// waits until it is let go.
type stubborn struct {
	at    string // invoke, first, second, result or close
	let   chan struct{}
	panic bool // when it is let go
}

func (p *stubborn) wait(at string) {
	if at != p.at {
		return
	}
	<-p.let
	if p.panic {
		panic("it gives up")
	}
}

func (p *stubborn) Invoke(context.Context, *providers.Request) (providers.Stream, error) {
	p.wait("invoke")
	return &stubbornStream{p: p}, nil
}

type stubbornStream struct {
	p      *stubborn
	pieces int
}

func (s *stubbornStream) Next() (providers.Delta, error) {
	s.pieces++
	switch s.pieces {
	case 1:
		s.p.wait("first")
		return providers.Delta{Content: "one "}, nil
	case 2:
		s.p.wait("second")
		return providers.Delta{Content: "two"}, nil
	}
	return providers.Delta{}, io.EOF
}

func (s *stubbornStream) Result() providers.Result {
	s.p.wait("result")
	return providers.Result{FinishReason: providers.FinishStop}
}

func (s *stubbornStream) Close() error {
	s.p.wait("close")
	return nil
}

// TestAProviderThatIgnoresItsContextHoldsNobody has a provider hang in each of
// its calls: its caller is answered in time, by the next target where there is
// one and nothing was said yet.
func TestAProviderThatIgnoresItsContextHoldsNobody(t *testing.T) {
	for _, panics := range []bool{false, true} {
		for _, stream := range []bool{false, true} {
			for _, hedge := range []time.Duration{0, 4 * time.Second} {
				for _, at := range []string{"invoke", "first", "second", "result", "close"} {
					synctest.Test(t, func(t *testing.T) {
						p := &stubborn{at: at, let: make(chan struct{}), panic: panics}
						e := NewEngine()
						c := &Call{
							Stream:  stream,
							Targets: []Target{target("a", p), target("b", scripted(says("fine")))},
							Policy:  Policy{Total: 30 * time.Second, FirstToken: 5 * time.Second, Idle: 6 * time.Second, Hedge: hedge},
						}
						// A stream's result is looked at before its first piece is handed on.
						committed := stream && at != "invoke" && at != "first" && at != "result"
						// When the call ends by itself.
						limit := c.Policy.FirstToken
						switch {
						case committed:
							limit = c.Policy.Idle
						case hedge > 0:
							limit = hedge
						case !stream:
							limit = 15 * time.Second // its share
						}
						began := time.Now()
						r, err, out := runOn(t, e, c)
						if took := time.Since(began); took < limit || took > limit+2*patience {
							t.Errorf("%s, stream=%v, hedge %s: took %s, want %s", at, stream, hedge, took, limit)
						}
						if committed != (err != nil) || committed && err.Code != wire.UpstreamInterrupted {
							t.Errorf("%s, stream=%v, hedge %s: error %v", at, stream, hedge, err)
						}
						if !committed && (out.text() != "fine" || r.Served != 1) {
							t.Errorf("%s, stream=%v, hedge %s: %q by %d", at, stream, hedge, out.text(), r.Served)
						}
						if !r.Attempts[0].Abandoned || len(r.Attempts) > 1 && r.Attempts[1].Abandoned {
							t.Errorf("%s, stream=%v, hedge %s: %+v", at, stream, hedge, r.Attempts)
						}
						h := e.health.of("a", "a-model")
						if n := h.stuck.Load(); n != 1 {
							t.Errorf("%s, stream=%v, hedge %s: %d calls go on", at, stream, hedge, n)
						}
						said := slices.Clone(out.pieces)
						close(p.let)
						synctest.Wait()
						if n := h.stuck.Load(); n != 0 {
							t.Errorf("%s, stream=%v, hedge %s: %d calls go on after the last returned", at, stream, hedge, n)
						}
						if !slices.Equal(said, out.pieces) {
							t.Errorf("%s, stream=%v, hedge %s: %q came after the end, %q before", at, stream, hedge, out.pieces, said)
						}
					})
				}
			}
		}
	}
}

func TestACallerThatLeavesIsNotHeld(t *testing.T) {
	for _, stream := range []bool{false, true} {
		for _, at := range []string{"invoke", "first", "second"} {
			synctest.Test(t, func(t *testing.T) {
				p := &stubborn{at: at, let: make(chan struct{})}
				defer close(p.let)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				began := time.Now()
				var out caller
				_, err := NewEngine().Invoke(ctx, &Call{Stream: stream, Targets: []Target{target("a", p)}}, out.emit)
				if e, ok := errors.AsType[*Error](err); !ok || e.Class != ClientGone {
					t.Errorf("%s, stream=%v: %v", at, stream, err)
				}
				if took := time.Since(began); took > time.Second+2*patience {
					t.Errorf("%s, stream=%v: held for %s", at, stream, took)
				}
			})
		}
	}
}

// TestAbandonedCallsAreBounded goes to the ceiling of calls that a provider
// holds though they have ended.
func TestAbandonedCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &stubborn{at: "invoke", let: make(chan struct{})}
		e := NewEngine()
		c := &Call{Stream: true, Targets: []Target{target("a", p)}, Policy: Policy{FirstToken: time.Second, Retries: retries(0), MaxAttempts: 1}}
		for n := range maxAbandoned {
			if r, err, _ := runOn(t, e, c); err == nil || len(r.Attempts) != 1 {
				t.Fatalf("call %d: %v, attempts %+v", n, err, r.Attempts)
			}
		}
		r, err, _ := runOn(t, e, c)
		if err == nil || err.Code != wire.UpstreamUnavailable || err.RetryAfter <= 0 || len(r.Attempts) != 0 || len(r.Skipped) != 1 || !errors.Is(r.Skipped[0].Reason, errAbandoned) {
			t.Errorf("at the ceiling: %v, %+v", err, r)
		}
		close(p.let)
		synctest.Wait()
		if _, err, out := runOn(t, e, c); err != nil || out.text() != "one two" {
			t.Errorf("after they returned: %v, %q", err, out.text())
		}
	})
}

// TestALateStreamIsClosed has a provider answer when nobody waits for it any more.
func TestALateStreamIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := &lateStream{fake: scripted(says("late")), let: make(chan struct{})}
		_, err, _ := runOn(t, NewEngine(), &Call{Stream: true, Targets: []Target{target("a", late)}, Policy: Policy{Total: time.Second}})
		if err == nil || err.Code != wire.UpstreamTimeout {
			t.Errorf("error %v", err)
		}
		close(late.let)
		synctest.Wait()
		if late.calls() != 1 || late.open != 0 || len(late.closed) != 1 {
			t.Errorf("%d calls, %d streams open, %d closed", late.calls(), late.open, len(late.closed))
		}
	})
}

// lateStream is a provider whose stream is there when it is let go.
type lateStream struct {
	*fake
	let chan struct{}
}

func (p *lateStream) Invoke(_ context.Context, req *providers.Request) (providers.Stream, error) {
	<-p.let
	return p.fake.Invoke(context.Background(), req)
}

// TestASlowCallerIsWaitedForAtTheEnd has a call's time end while its caller takes
// a piece: Invoke does not return before that is done.
func TestASlowCallerIsWaitedForAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taking := false
		began := time.Now()
		c := &Call{Stream: true, Targets: []Target{target("a", scripted(says("one ", "two ", "three")))}, Policy: Policy{Total: 5 * time.Second}}
		pieces := 0
		_, err := NewEngine().Invoke(t.Context(), c, func(providers.Delta) error {
			taking = true
			if pieces++; pieces == 2 {
				time.Sleep(20 * time.Second)
			}
			taking = false
			return nil
		})
		if took := time.Since(began); taking || took < 20*time.Second || took > 21*time.Second {
			t.Errorf("Invoke returned after %s, %v, while a piece is taken: %v", took, err, taking)
		}
	})
}
