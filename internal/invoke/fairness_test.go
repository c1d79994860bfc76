package invoke

import (
	"context"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/inflight"
	"github.com/cadenza-gateway/cadenza/providers"
)

// bearing is a provider that bears so many calls of 100 ms: with more all take longer, by
// the square, and beyond refuses it answers 503.
type bearing struct {
	bears, refuses int

	mu    sync.Mutex
	calls int
}

func (b *bearing) Invoke(ctx context.Context, _ *providers.Request) (providers.Stream, error) {
	b.mu.Lock()
	if b.calls >= b.refuses {
		b.mu.Unlock()
		_ = sleep(ctx, time.Millisecond)
		return nil, status(503)
	}
	b.calls++
	slow := max(1, float64(b.calls)/float64(b.bears))
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.calls--
		b.mu.Unlock()
	}()
	if err := sleep(ctx, time.Duration(100*slow*slow)*time.Millisecond); err != nil {
		return nil, err
	}
	return &oneWord{}, nil
}

type oneWord struct{ said bool }

func (w *oneWord) Next() (providers.Delta, error) {
	if w.said {
		return providers.Delta{}, io.EOF
	}
	w.said = true
	return providers.Delta{Content: "a"}, nil
}
func (w *oneWord) Result() providers.Result { return providers.Result{FinishReason: "stop"} }
func (w *oneWord) Close() error             { return nil }

// crowd is some callers of one API key, each of which asks again after a pause.
type crowd struct {
	key            byte
	callers        int
	pause, refused time.Duration // after an answer, after an error

	mu             sync.Mutex
	asked, answers int
}

// share is the part of the requests that was answered.
func (c *crowd) share() float64 { return float64(c.answers) / float64(c.asked) }

// ask has the callers call the target for so long.
func (c *crowd) ask(t *testing.T, group *sync.WaitGroup, e *Engine, calls *inflight.Calls, limits *inflight.Limits, p providers.Provider, last time.Duration) {
	end := time.Now().Add(last)
	for i := range c.callers {
		group.Go(func() {
			time.Sleep(time.Duration(i) * time.Millisecond)
			for time.Now().Before(end) {
				var out caller
				_, err := e.Invoke(t.Context(), &Call{
					Targets:  []Target{at("a:443", "p", p)},
					InFlight: calls, HostLimit: limits.AtHost("w", inflight.Key{c.key}),
				}, out.emit)
				c.mu.Lock()
				c.asked++
				pause := c.refused
				if err == nil {
					c.answers++
					pause = c.pause
				}
				c.mu.Unlock()
				time.Sleep(pause)
			}
		})
	}
}

// TestHeavyKeyDoesNotStarveALightOne: a key of 200 callers that never pause and one of four
// share a host that bears 20 calls. Without sharing 4 % of the light one's requests were
// answered.
func TestHeavyKeyDoesNotStarveALightOne(t *testing.T) {
	for name, limits := range map[string]inflight.Limits{
		"by default":              {Host: 1536},
		"adaptive":                {Host: 1536, Adaptive: true},
		"a low adaptive ceiling":  {Host: 100, Adaptive: true},
		"a full ceiling":          {Host: 60},
		"a ceiling that is borne": {Host: 20},
	} {
		if raceEnabled && name != "adaptive" { // each takes a quarter of a minute then
			continue
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const last = 60 * time.Second
				heavy := &crowd{key: 1, callers: 200, refused: 50 * time.Millisecond}
				light := &crowd{key: 2, callers: 4, pause: 100 * time.Millisecond, refused: 100 * time.Millisecond}
				e, calls, p := NewEngine(), new(inflight.Calls), &bearing{bears: 20, refuses: 80}
				var group sync.WaitGroup
				heavy.ask(t, &group, e, calls, &limits, p, last)
				light.ask(t, &group, e, calls, &limits, p, last)
				group.Wait()
				t.Logf("heavy %.0f/s, light %.1f %% of %d", float64(heavy.answers)/last.Seconds(), 100*light.share(), light.asked)
				if name == "by default" && heavy.answers < 60*int(last.Seconds()) { // without sharing: 55/s
					t.Errorf("the heavy key gets %.0f answers a second", float64(heavy.answers)/last.Seconds())
				}
				if light.share() < 0.95 {
					t.Errorf("%.1f %% of the light key's requests are answered", 100*light.share())
				}
			})
		})
	}
}

// TestRetriesByStanding: if the bucket is empty a light key may still retry; a key that
// has its share of an overloaded host may not, even if the bucket is full.
func TestRetriesByStanding(t *testing.T) {
	limits := inflight.Limits{Host: 1000}
	for name, test := range map[string]struct {
		key     byte
		ejected bool
		shared  bool
		tries   int
	}{
		"heavy, ejected":        {1, true, false, 1},
		"light, ejected":        {2, true, false, 3},
		"heavy, in good health": {1, false, false, 3},
		"heavy, shared":         {1, false, true, 1},
		"light, shared":         {2, false, true, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, calls := NewEngine(), new(inflight.Calls)
				for range 60 {
					calls.EnterHost("a:443", limits.AtHost("w", inflight.Key{1}))
				}
				for n := 0; test.shared && n < 120; n++ {
					time.Sleep(50 * time.Millisecond)
					o := inflight.Outcome{Began: time.Now(), Overloaded: n%20 != 0}
					if !o.Overloaded {
						o.Began = o.Began.Add(-time.Second * 5)
					}
					for key := range byte(2) {
						calls.Report("a:443", limits.AtHost("w", inflight.Key{1 + key}), o)
					}
					if calls.HostShared("a:443") > 0 {
						// The heavy key is let in once more, and has its share then.
						for calls.HostRefuses("a:443", limits.AtHost("w", inflight.Key{1})) != inflight.None {
							calls.LeaveHost("a:443", limits.AtHost("w", inflight.Key{1}))
						}
						break
					}
				}
				h := e.health.get("p", "p-model")
				h.bucket.tokens = 0
				if test.ejected {
					h.until = time.Now().Add(time.Hour)
				}
				p := scripted(fails(status(503)))
				_, _, _ = runOn(t, e, &Call{
					Targets:  []Target{at("a:443", "p", p)},
					InFlight: calls, HostLimit: limits.AtHost("w", inflight.Key{test.key}),
				})
				if got := p.calls(); got != test.tries {
					t.Errorf("%d tries, want %d", got, test.tries)
				}
			})
		})
	}
}
