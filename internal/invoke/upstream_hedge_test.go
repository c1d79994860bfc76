package invoke_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// letGo measures how long an upstream is busy from now on.
func letGo(t *testing.T, up *pt.Upstream) time.Duration {
	t.Helper()
	began := time.Now()
	for up.Active() > 0 {
		if time.Since(began) > time.Minute {
			t.Error("the upstream call goes on")
			break
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(began)
}

// within runs a measurement until one is within the limit: on a busy machine a
// single one says little.
func within(t *testing.T, limit time.Duration, measure func() time.Duration) {
	t.Helper()
	var took time.Duration
	for range 5 {
		if took = measure(); took <= limit {
			return
		}
	}
	t.Errorf("took %s, want %s at most", took, limit)
}

func TestACallerThatGoesAwayEndsTheUpstreamCallWithin100Milliseconds(t *testing.T) {
	for name, reply := range map[string]pt.Reply{
		"before the headers": {HeaderDelay: time.Hour},
		"before content":     {Body: []string{pt.RoleChunk()}, End: pt.Hang},
		"in the content":     {Body: []string{pt.RoleChunk(), pt.ContentChunk("a")}, End: pt.Hang},
	} {
		t.Run(name, func(t *testing.T) {
			up := pt.NewUpstream(t).Always(reply)
			c := &invoke.Call{Stream: true, Targets: []invoke.Target{{Name: "a", Provider: provider(t, up), Model: "m"}}}
			within(t, 100*time.Millisecond, func() time.Duration {
				ctx, cancel := context.WithCancel(t.Context())
				var took time.Duration
				var wait sync.WaitGroup
				wait.Go(func() {
					for up.Active() == 0 {
						time.Sleep(time.Millisecond)
					}
					time.Sleep(20 * time.Millisecond)
					cancel()
					took = letGo(t, up)
				})
				if _, err := invoke.NewEngine().Invoke(ctx, c, func(providers.Delta) error { return nil }); err == nil {
					t.Error("no error")
				}
				wait.Wait()
				return took
			})
		})
	}
}

func TestTheLoserOfAHedgeIsLetGoWithin100Milliseconds(t *testing.T) {
	for name, reply := range map[string]pt.Reply{
		"before the headers": {HeaderDelay: time.Hour},
		"before content":     {Body: []string{pt.RoleChunk()}, End: pt.Hang},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				slow, fast := pt.NewUpstream(t).Always(reply), pt.NewUpstream(t)
				if stream {
					fast.Always(pt.OpenAIStream("fi", "ne"))
				} else {
					fast.Always(pt.OpenAIAnswer("fine", 2))
				}
				c := &invoke.Call{
					Stream:  stream,
					Targets: []invoke.Target{{Name: "a", Provider: provider(t, slow), Model: "m"}, {Name: "b", Provider: provider(t, fast), Model: "m"}},
					Policy:  invoke.Policy{Hedge: 30 * time.Millisecond},
				}
				within(t, 100*time.Millisecond, func() time.Duration {
					var text string
					var took time.Duration
					r, err := invoke.NewEngine().Invoke(t.Context(), c, func(d providers.Delta) error {
						if text += d.Content; took == 0 {
							took = letGo(t, slow)
						}
						return nil
					})
					if err != nil || text != "fine" || r.Served != 1 || len(r.Attempts) != 2 || r.Attempts[0].Code != string(invoke.Superseded) {
						t.Errorf("error %v, answer %q, attempts %+v", err, text, r.Attempts)
					}
					return took
				})
			})
		}
	}
}

// TestFaultsOverRealConnections has a healthy fallback answer for each fault
// that comes before content, whole and streamed, and keeps the answers of the
// two apart, with hedging and without.
func TestFaultsOverRealConnections(t *testing.T) {
	faults := []pt.Reply{
		pt.OpenAIError(500, "server_error", "", "boom"), pt.OpenAIError(429, "requests", "rate_limit_exceeded", "slow"),
		pt.OpenAIError(200, "server_error", "", "boom"), pt.SSE(pt.RoleChunk(), pt.Event(pt.ErrorObject("server_error", "", "boom"))),
		pt.SSE(pt.Done), pt.SSE("<html>"), pt.SSE(), {Status: -1, End: pt.Reset}, {Status: -1, End: pt.Cut},
		{Body: []string{pt.RoleChunk()}, End: pt.Reset}, {Body: []string{pt.RoleChunk()}, End: pt.Cut}, {HeaderDelay: 300 * time.Millisecond},
	}
	answer := func(letter string, r pt.Request) pt.Reply {
		if strings.Contains(r.Body, `"stream":true`) {
			return pt.OpenAIStream(strings.Split(strings.Repeat(letter, 5), "")...)
		}
		return pt.OpenAIAnswer(strings.Repeat(letter, 5), 5)
	}
	faulty := pt.NewUpstream(t).Choose(func(r pt.Request) pt.Reply {
		if rand.IntN(10) < 3 {
			return faults[rand.IntN(len(faults))]
		}
		return answer("a", r)
	})
	healthy := pt.NewUpstream(t).Choose(func(r pt.Request) pt.Reply { return answer("b", r) })
	targets := []invoke.Target{{Name: "a", Provider: provider(t, faulty), Model: "m"}, {Name: "b", Provider: provider(t, healthy), Model: "m"}}
	for name, hedge := range map[string]time.Duration{"hedged": 40 * time.Millisecond, "not hedged": 0} {
		t.Run(name, func(t *testing.T) {
			e := invoke.NewEngine()
			var served [2]atomic.Int32
			var wait sync.WaitGroup
			for i := range 20 {
				wait.Go(func() {
					for range 15 {
						c := &invoke.Call{Stream: i%2 == 0, Targets: targets, Policy: invoke.Policy{Hedge: hedge}}
						var text string
						r, err := e.Invoke(t.Context(), c, func(d providers.Delta) error { text += d.Content; return nil })
						if err != nil || text != strings.Repeat(targets[r.Served].Name, 5) {
							t.Errorf("error %v, served %d, answer %q", err, r.Served, text)
							continue
						}
						served[r.Served].Add(1)
					}
				})
			}
			wait.Wait()
			if served[1].Load() == 0 {
				t.Error("the fallback never answered")
			}
			letGo(t, faulty)
			letGo(t, healthy)
		})
	}
}
