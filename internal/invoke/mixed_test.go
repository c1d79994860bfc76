package invoke

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/cadenza-gateway/cadenza/providers"
)

// letters is a provider that answers with its letter, at random pace, or
// fails; and that knows how many of its kind are called at once.
type letters struct {
	letter  string
	script  func() script
	running *gauge
}

type gauge struct{ now, most atomic.Int32 }

func (p letters) Invoke(ctx context.Context, req *providers.Request) (providers.Stream, error) {
	n := p.running.now.Add(1)
	for most := p.running.most.Load(); n > most && !p.running.most.CompareAndSwap(most, n); most = p.running.most.Load() {
	}
	f := scripted(p.script())
	s, err := f.Invoke(ctx, req)
	if err != nil {
		p.running.now.Add(-1)
		return nil, err
	}
	return &counted{Stream: s, done: sync.OnceFunc(func() { p.running.now.Add(-1) })}, nil
}

type counted struct {
	providers.Stream
	done func()
}

func (c *counted) Close() error {
	c.done()
	return c.Stream.Close()
}

const answerLength = 6

// TestAnswersAreNeverMixed draws calls at random and checks what must hold for
// each: the caller gets pieces of one attempt, all of them or an error, never
// more attempts than allowed, never more than two at once, and nothing runs
// when the call has ended.
func TestAnswersAreNeverMixed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type behaviour struct {
			before, pace, failAt int
			fail                 error
		}
		failures := []error{
			nil, nil, nil, status(500), status(400), &providers.Error{Status: 429, RetryAfter: time.Second},
			&providers.ConnectError{Err: errors.New("x")}, &providers.Error{Kind: providers.Truncated},
		}
		draw := rapid.Custom(func(t *rapid.T) behaviour {
			return behaviour{
				rapid.IntRange(0, 40).Draw(t, "before"), rapid.IntRange(0, 5).Draw(t, "pace"), rapid.IntRange(-1, answerLength).Draw(t, "failAt"),
				rapid.SampledFrom(failures).Draw(t, "fail"),
			}
		})
		tries := rapid.SliceOfN(rapid.SliceOfN(draw, 4, 4), 1, 4).Draw(rt, "tries")
		stream := rapid.Bool().Draw(rt, "stream")
		policy := Policy{
			Hedge: time.Duration(rapid.IntRange(1, 50).Draw(rt, "hedge")) * 100 * time.Millisecond, MaxAttempts: rapid.IntRange(1, 6).Draw(rt, "attempts"),
			FirstToken: 3 * time.Second, Idle: 2 * time.Second, Total: 30 * time.Second,
		}
		refuses := rapid.SliceOfN(rapid.Bool(), 0, 8).Draw(rt, "refuses")
		leaves := time.Duration(rapid.IntRange(1, 200).Draw(rt, "leaves")) * 100 * time.Millisecond

		synctest.Test(t, func(t *testing.T) {
			running := &gauge{}
			kept := &purse{refuses: refuses}
			c := &Call{Stream: stream, Policy: policy, Purse: kept}
			for i, all := range tries {
				letter, next := string(rune('a'+i)), 0
				c.Targets = append(c.Targets, target(letter, letters{letter, func() script {
					b := all[min(next, len(all)-1)]
					next++
					if b.fail != nil && b.failAt < 0 {
						return script{after: time.Duration(b.before) * 100 * time.Millisecond, err: b.fail}
					}
					s := says(strings.Split(strings.Repeat(letter, answerLength), "")...)
					for i := range s.steps {
						s.steps[i].after = time.Duration(b.pace) * 500 * time.Millisecond
					}
					s.steps[0].after = time.Duration(b.before) * 100 * time.Millisecond
					if b.fail != nil {
						s.steps = append(s.steps[:b.failAt], step{err: b.fail})
					}
					return s
				}, running}))
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), leaves, context.Canceled)
			defer cancel()
			var out caller
			r, err := NewEngine().Invoke(ctx, c, out.emit)

			text := out.text()
			if text != "" && strings.Trim(text, text[:1]) != "" {
				rt.Fatalf("mixed: %q", text)
			}
			if err == nil && (len(text) != answerLength || c.Targets[r.Served].Name != text[:1]) || err != nil && len(text) == answerLength && !stream {
				rt.Fatalf("error %v, served %d, answer %q", err, r.Served, text)
			}
			if limit := c.Policy.withDefaults(len(c.Targets)).MaxAttempts; len(r.Attempts) > limit {
				rt.Fatalf("%d attempts of %d", len(r.Attempts), limit)
			}
			if !slices.IsSortedFunc(r.Attempts, func(a, b Attempt) int { return int(a.Started - b.Started) }) {
				rt.Fatalf("attempts out of order: %+v", r.Attempts)
			}
			if kept.taken != len(r.Attempts) {
				rt.Fatalf("%d attempts are paid for, %d were made", kept.taken, len(r.Attempts))
			}
			succeeded := 0
			for _, a := range r.Attempts {
				if a.Provider == "" || a.Latency < 0 {
					rt.Fatalf("attempt %+v", a)
				}
				if a.Code == "" {
					succeeded++
				}
			}
			if (succeeded == 1) != (err == nil) || succeeded > 1 {
				rt.Fatalf("error %v and %d successes", err, succeeded)
			}
			if now, most := running.now.Load(), running.most.Load(); now != 0 || most > 2 {
				rt.Fatalf("%d attempts run on, %d at once", now, most)
			}
		})
	})
}

// TestHedgedCallsAtOnce makes winners and losers meet as closely as a real
// scheduler does.
func TestHedgedCallsAtOnce(t *testing.T) {
	e := NewEngine()
	running := &gauge{}
	provider := func(letter string) letters {
		return letters{letter, func() script {
			s := says(strings.Split(strings.Repeat(letter, answerLength), "")...)
			for i := range s.steps {
				s.steps[i].after = time.Duration(rand.IntN(300)) * time.Microsecond
			}
			return s
		}, running}
	}
	a, b := target("a", provider("a")), target("b", provider("b"))
	var both atomic.Int32
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			for i := range 150 {
				bucket := e.health.get("b", "b-model").bucket
				bucket.mu.Lock()
				bucket.tokens = bucketSize
				bucket.mu.Unlock()
				c := hedged(time.Duration(rand.IntN(400))*time.Microsecond+1, a, b)
				c.Stream = i%2 == 0
				var out caller
				r, err := e.Invoke(t.Context(), c, out.emit)
				if text := out.text(); err != nil || text != strings.Repeat(c.Targets[r.Served].Name, answerLength) {
					t.Errorf("error %v, served %d, answer %q", err, r.Served, text)
				}
				if len(r.Attempts) == 2 {
					both.Add(1)
				}
			}
		})
	}
	wait.Wait()
	if n := both.Load(); n == 0 {
		t.Error("no call was hedged")
	}
	if n := running.now.Load(); n != 0 {
		t.Errorf("%d attempts run on", n)
	}
}
