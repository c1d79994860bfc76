package invoke

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/internal/inflight"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// at is a target at a host.
func at(host, name string, p providers.Provider) Target {
	t := target(name, p)
	t.Host = host
	return t
}

// occupied has n calls in flight at a host.
func occupied(host string, n int) *inflight.Calls {
	c := new(inflight.Calls)
	for range n {
		c.EnterHost(host, inflight.HostLimit{Max: n})
	}
	return c
}

func TestFullHostIsPassedOver(t *testing.T) {
	for _, test := range []struct {
		name   string
		busy   int // at host a, which takes 2
		served int
	}{
		{"below the ceiling", 1, 0},
		{"at the ceiling", 2, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			calls := occupied("a:443", test.busy)
			r, err, _ := run(t, &Call{
				Targets:  []Target{at("a:443", "first", scripted(says("a"))), at("b:443", "second", scripted(says("b")))},
				InFlight: calls, HostLimit: inflight.HostLimit{Max: 2},
			})
			if err != nil || r.Served != test.served {
				t.Errorf("served by %d, %v, want %d", r.Served, err, test.served)
			}
			if skipped := len(r.Skipped) == 1 && errors.Is(r.Skipped[0].Reason, ErrHostFull); skipped != (test.served == 1) {
				t.Errorf("skipped %v", r.Skipped)
			}
			if calls.Host("a:443") != test.busy || calls.Host("b:443") != 0 {
				t.Errorf("%d and %d calls left behind", calls.Host("a:443"), calls.Host("b:443"))
			}
		})
	}
}

func TestOverloadedWhereNoHostHasAPlace(t *testing.T) {
	busy := scripted(says("a"))
	for _, test := range []struct {
		name    string
		targets []Target
		code    wire.Code
	}{
		{"one target", []Target{at("a:443", "p", busy)}, wire.Overloaded},
		{"two at one host", []Target{at("a:443", "p", busy), at("a:443", "q", busy)}, wire.Overloaded},
		{"the other lacks its key", []Target{at("a:443", "p", busy), at("b:443", "q", keyless{})}, wire.Overloaded},
		{"the other failed", []Target{at("b:443", "q", scripted(fails(status(400)))), at("a:443", "p", busy)}, wire.UpstreamRejected},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err, _ := run(t, &Call{Targets: test.targets, InFlight: occupied("a:443", 2), HostLimit: inflight.HostLimit{Max: 2}})
			if err == nil || err.Code != test.code {
				t.Fatalf("%v, want %s", err, test.code.Name)
			}
			if test.code == wire.Overloaded && (err.RetryAfter < minRetryAfter || len(r.Attempts) != 0) {
				t.Errorf("retry after %s, %d attempts", err.RetryAfter, len(r.Attempts))
			}
			if busy.calls() != 0 {
				t.Error("a full host was called")
			}
		})
	}
}

type keyless struct{ providers.Provider }

func (keyless) Unavailable() error { return errors.New("no key") }

// TestEjectedTargetIsTriedOnlyWithAPlace has the target that would be back
// soonest at a full host.
func TestEjectedTargetIsTriedOnlyWithAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEngine()
		soon, late := scripted(says("a")), scripted(says("b"))
		now := time.Now()
		e.health.get("soon", "soon-model").cool = now.Add(time.Second)
		e.health.get("late", "late-model").cool = now.Add(time.Minute)
		targets := []Target{at("a:443", "soon", soon), at("b:443", "late", late)}
		calls := occupied("a:443", 2)
		r, err, _ := runOn(t, e, &Call{Targets: targets, InFlight: calls, HostLimit: inflight.HostLimit{Max: 2}})
		if err != nil || r.Served != 1 || soon.calls() != 0 {
			t.Errorf("served by %d, %v", r.Served, err)
		}
		calls.LeaveHost("a:443", inflight.HostLimit{})
		e.health.get("late", "late-model").cool = now.Add(time.Minute)
		r, err, _ = runOn(t, e, &Call{Targets: targets, InFlight: calls, HostLimit: inflight.HostLimit{Max: 2}})
		if err != nil || r.Served != 0 {
			t.Errorf("with a place: served by %d, %v", r.Served, err)
		}
		if calls.Host("a:443") != 1 || calls.Host("b:443") != 0 {
			t.Errorf("%d and %d calls left behind", calls.Host("a:443"), calls.Host("b:443"))
		}
	})
}

// TestHostIsLeftWithItsTarget looks at the counts while the second target
// answers: the first host has its place back, whatever it failed by.
func TestHostIsLeftWithItsTarget(t *testing.T) {
	calls := new(inflight.Calls)
	var during []int
	look := func(context.Context, *providers.Request) (providers.Stream, error) {
		during = append(during, calls.Host("a:443"), calls.Host("b:443"))
		return nil, status(400)
	}
	_, err, _ := run(t, &Call{
		Targets:  []Target{at("a:443", "p", invokeFunc(look)), at("b:443", "q", invokeFunc(look))},
		InFlight: calls, HostLimit: inflight.HostLimit{Max: 1},
	})
	if err == nil || !slices.Equal(during, []int{1, 0, 0, 1}) {
		t.Errorf("%v: places at a and b during the attempts: %v", err, during)
	}
}

type invokeFunc func(context.Context, *providers.Request) (providers.Stream, error)

func (f invokeFunc) Invoke(ctx context.Context, req *providers.Request) (providers.Stream, error) {
	return f(ctx, req)
}

func TestHedgeTakesAPlaceAtItsHost(t *testing.T) {
	for _, test := range []struct {
		name   string
		limit  int
		hedges int // calls of the second target
	}{
		{"both fit", 2, 1},
		{"no place for the hedge", 1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := new(inflight.Calls)
				slow := says("slow")
				slow.after = 10 * time.Second
				second := scripted(says("fast"))
				r, err, _ := run(t, &Call{
					Targets:  []Target{at("a:443", "p", scripted(slow)), at("a:443", "q", second)},
					Policy:   Policy{Hedge: time.Second, Total: time.Minute},
					InFlight: calls, HostLimit: inflight.HostLimit{Max: test.limit},
				})
				if err != nil || second.calls() != test.hedges || r.Served != test.hedges {
					t.Errorf("%d hedges, served by %d, %v", second.calls(), r.Served, err)
				}
				if calls.Host("a:443") != 0 {
					t.Errorf("%d calls left behind", calls.Host("a:443"))
				}
			})
		})
	}
}

// TestNoPlaceIsLeaked has calls end in every way there is, at once: answers,
// failures with and without retries, panics, hedges, callers that leave and
// deadlines.
func TestNoPlaceIsLeaked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := new(inflight.Calls)
		engine := NewEngine()
		hanging := says("so far")
		hanging.hang = true
		late := says("late")
		late.after = 3 * time.Second
		scripts := []script{
			says("fine"), says("one", "two"), hanging, late, fails(status(500)), fails(status(429)), fails(status(400)),
			{steps: []step{{say: "a"}, {err: status(500)}}}, fails(&providers.ConnectError{Err: errHangup}),
		}
		panics := invokeFunc(func(context.Context, *providers.Request) (providers.Stream, error) { panic("a provider's bug") })
		hosts := []string{"a:443", "b:443", "c:80"}
		random := gatewaytest.Random(t)
		var group sync.WaitGroup
		for range 400 {
			c := &Call{
				Stream:   random.IntN(2) == 0,
				Policy:   Policy{Total: time.Duration(1+random.IntN(20)) * time.Second, FirstToken: 2 * time.Second, Idle: time.Second},
				InFlight: calls, HostLimit: inflight.HostLimit{Max: 40},
			}
			if random.IntN(2) == 0 {
				c.Policy.Hedge = time.Duration(random.IntN(2000)) * time.Millisecond
			}
			for i := range 1 + random.IntN(3) {
				var p providers.Provider = scripted(scripts[random.IntN(len(scripts))])
				if random.IntN(10) == 0 {
					p = panics
				}
				c.Targets = append(c.Targets, at(hosts[random.IntN(len(hosts))], hosts[i], p))
			}
			out := caller{gone: random.IntN(3)}
			leave, start := time.Duration(random.IntN(5000))*time.Millisecond, time.Duration(random.IntN(3000))*time.Millisecond
			group.Go(func() {
				defer func() { _ = recover() }()
				time.Sleep(start)
				ctx, cancel := context.WithTimeout(t.Context(), leave)
				defer cancel()
				_, _ = engine.Invoke(ctx, c, out.emit)
			})
		}
		group.Wait()
		for _, host := range hosts {
			if n := calls.Host(host); n != 0 {
				t.Errorf("%d places at %s are leaked", n, host)
			}
		}
	})
}

// TestCeilingFollowsTheHost: what overloads a host lowers its adaptive ceiling, and other
// failures do not.
func TestCeilingFollowsTheHost(t *testing.T) {
	limit := inflight.HostLimit{Max: 10, Adaptive: true}
	for name, test := range map[string]struct {
		answer script
		stream bool
		falls  bool
	}{
		"rate limit":  {fails(&providers.Error{Status: 429}), false, true},
		"unavailable": {fails(&providers.Error{Status: 503}), false, true},
		"slow":        {fails(errFirstToken), false, true},
		"no answer":   {fails(&providers.ConnectError{Err: errors.New("refused")}), false, true},
		"rejected":    {fails(&providers.Error{Status: 400}), false, false},
		"no key":      {fails(&providers.Error{Status: 401}), false, false},
		"an answer":   {says("a"), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := new(inflight.Calls)
				for range 20 {
					time.Sleep(200 * time.Millisecond)
					_, _, _ = run(t, &Call{
						Targets: []Target{at("a:443", "p", scripted(test.answer))}, Policy: Policy{Retries: new(0)},
						InFlight: calls, HostLimit: limit, Stream: test.stream,
					})
				}
				if got := calls.HostCeiling("a:443", limit) < 10; got != test.falls {
					t.Errorf("the ceiling falls: %v", got)
				}
			})
		})
	}
}

// TestCeilingFollowsTheWait: a longer wait for the first content of a stream, or for a
// whole answer, lowers an adaptive ceiling; an answer that is long does not.
func TestCeilingFollowsTheWait(t *testing.T) {
	limit := inflight.HostLimit{Max: 10, Adaptive: true}
	answer := func(first, rest time.Duration) script {
		s := says("a", "b")
		s.steps[0].after, s.steps[1].after = first, rest
		return s
	}
	const short, long = 100 * time.Millisecond, 300 * time.Millisecond
	for name, test := range map[string]struct {
		stream bool
		later  script
		falls  bool
	}{
		"as before":           {true, answer(short, short), false},
		"first content later": {true, answer(long, short), true},
		"a longer stream":     {true, answer(short, long), false},
		"whole, as before":    {false, answer(short, short), false},
		"whole, later":        {false, answer(short, long), true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := new(inflight.Calls)
				for n := range 80 {
					s := answer(short, short)
					if n >= 40 {
						s = test.later
					}
					if _, err, _ := run(t, &Call{Targets: []Target{at("a:443", "p", scripted(s))}, InFlight: calls, HostLimit: limit, Stream: test.stream}); err != nil {
						t.Fatal(err)
					}
				}
				if got := calls.HostCeiling("a:443", limit) < 10; got != test.falls {
					t.Errorf("the ceiling falls: %v", got)
				}
			})
		})
	}
}
