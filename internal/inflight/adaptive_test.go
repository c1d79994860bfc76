package inflight

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const testHost = "h:443"

func adaptive(most int, key byte) HostLimit {
	return HostLimit{Max: most, Adaptive: true, Workspace: "w", Key: Key{key}}
}

// upstream is a provider that bears so many calls, each of a time. serve answers one: how
// long it took, and whether it was refused.
type upstream struct {
	mu     sync.Mutex
	calls  int
	bears  int
	took   time.Duration
	refuse int     // beyond so many calls; 0: never
	square float64 // with more calls than it bears, all take so many times as long, by the power of it
}

func (u *upstream) serve() (refused bool) {
	u.mu.Lock()
	if u.refuse > 0 && u.calls >= u.refuse {
		u.mu.Unlock()
		time.Sleep(time.Millisecond)
		return true
	}
	u.calls++
	slow := math.Pow(max(1, float64(u.calls)/float64(u.bears)), u.square)
	u.mu.Unlock()
	time.Sleep(time.Duration(float64(u.took) * slow))
	u.mu.Lock()
	u.calls--
	u.mu.Unlock()
	return false
}

// load has a key ask at a rate, with a patience, and returns the good answers of each
// second.
func load(c *Calls, u *upstream, limit HostLimit, rate float64, last, patience time.Duration, answered func()) {
	var group sync.WaitGroup
	r := rand.New(rand.NewPCG(1, uint64(limit.Key[0])))
	for end := time.Now().Add(last); time.Now().Before(end); {
		time.Sleep(time.Duration(r.ExpFloat64() / rate * float64(time.Second)))
		if !c.EnterHost(testHost, limit) {
			continue
		}
		group.Go(func() {
			defer c.LeaveHost(testHost, limit)
			began := time.Now()
			refused := u.serve()
			waited := time.Since(began)
			c.Report(testHost, limit, Outcome{Overloaded: refused || waited > patience, Began: began, Model: "m", Waited: waited})
			if !refused && waited <= patience {
				answered()
			}
		})
	}
	group.Wait()
}

// TestCeilingFindsWhatAHostBears offers three times the calls that a host bears. The host
// answers 200 calls a second at most; the figure is the part of them that is answered
// once the ceiling has settled.
func TestCeilingFindsWhatAHostBears(t *testing.T) {
	for name, test := range map[string]struct {
		u     *upstream
		least float64
	}{
		"refuses what it does not bear":       {&upstream{bears: 20, took: 100 * time.Millisecond, refuse: 30, square: 1}, 0.9},
		"slows by the square and never fails": {&upstream{bears: 20, took: 100 * time.Millisecond, square: 2}, 0.75},
		"slows by the square, refuses late":   {&upstream{bears: 20, took: 100 * time.Millisecond, refuse: 80, square: 2}, 0.75},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c Calls
				u := test.u
				limit := adaptive(100, 1)
				load(&c, u, limit, 100, 10*time.Second, 2*time.Second, func() {}) // half of its capacity
				if got := c.HostCeiling(testHost, limit); got != 100 {
					t.Errorf("the ceiling is %d without an overload", got)
				}
				began, good := time.Now(), 0
				var mu sync.Mutex
				const settling, last = 10 * time.Second, 60 * time.Second
				load(&c, u, limit, 600, last, 2*time.Second, func() {
					mu.Lock()
					defer mu.Unlock()
					if time.Since(began) > settling {
						good++
					}
				})
				share := float64(good) / (last - settling).Seconds() / 200
				t.Logf("goodput %.0f %%, ceiling %d", 100*share, c.HostCeiling(testHost, limit))
				if share < test.least {
					t.Errorf("%.0f %% of what the host bears are answered, want %.0f %%", 100*share, 100*test.least)
				}
			})
		})
	}
}

// TestOneCallerClosesNoHost: time-outs of one key, with nothing else in flight, are no
// window; many of them close the host for that key's workspace as far as the least, and
// answers to another key open it again within seconds.
func TestOneCallerClosesNoHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Calls
		slow, other := adaptive(40, 1), adaptive(40, 2)
		call := func(limit HostLimit, took time.Duration, overloaded bool) {
			if !c.EnterHost(testHost, limit) {
				t.Fatal("no place")
			}
			began := time.Now()
			time.Sleep(took)
			c.Report(testHost, limit, Outcome{Overloaded: overloaded, Began: began, Model: "m", Waited: took})
			c.LeaveHost(testHost, limit)
		}
		for range 3 {
			call(slow, time.Second, true)
		}
		if got := c.HostCeiling(testHost, other); got != 40 {
			t.Errorf("%d after three time-outs of one caller", got)
		}
		before := 40
		for range 200 {
			call(slow, 100*time.Millisecond, true)
			got := c.HostCeiling(testHost, other)
			if 2*got < before {
				t.Fatalf("%d at once, it was %d", got, before)
			}
			before = got
		}
		if before != 4 {
			t.Errorf("%d after nothing but time-outs, want a tenth of 40", before)
		}
		// The slow caller goes on, and others are answered.
		began := time.Now()
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				for time.Since(began) < 20*time.Second {
					if !c.EnterHost(testHost, other) {
						time.Sleep(50 * time.Millisecond)
						continue
					}
					from := time.Now()
					time.Sleep(500 * time.Millisecond)
					c.Report(testHost, other, Outcome{Began: from, Model: "m", Waited: 500 * time.Millisecond})
					c.LeaveHost(testHost, other)
				}
			})
		}
		for time.Since(began) < 10*time.Second {
			time.Sleep(100 * time.Millisecond)
			c.Report(testHost, slow, Outcome{Overloaded: true, Began: time.Now(), Model: "m"})
		}
		if got := c.HostCeiling(testHost, other); got < 20 {
			t.Errorf("%d after ten seconds in which others were answered", got)
		}
		group.Wait()
	})
}

// TestCeilingsOfWorkspaces: what one workspace finds at a host is its own.
func TestCeilingsOfWorkspaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Calls
		one, two := adaptive(10, 1), adaptive(10, 2)
		two.Workspace = "v"
		for range 2 * minOutcomes {
			time.Sleep(time.Second)
			c.Report(testHost, one, Outcome{Overloaded: true, Began: time.Now()})
		}
		if a, b := c.HostCeiling(testHost, one), c.HostCeiling(testHost, two); a >= 10 || b != 10 {
			t.Errorf("ceilings %d and %d", a, b)
		}
		c.EnterHost(testHost, one)
		for c.HostRefuses(testHost, one) == None {
			c.EnterHost(testHost, one)
		}
		if c.HostRefuses(testHost, two) != None {
			t.Error("the host is full for the other workspace, too")
		}
		for c.EnterHost(testHost, two) {
		}
		if got := c.Host(testHost); got != 10 {
			t.Errorf("%d calls of all workspaces, want 10", got)
		}
		fixed := HostLimit{Max: 12, Workspace: "w"}
		if c.HostRefuses(testHost, fixed) != None || c.HostCeiling(testHost, fixed) != 12 {
			t.Error("a ceiling that is not adaptive has changed")
		}
		c.Report(testHost, fixed, Outcome{Overloaded: true})
		for range 3 {
			c.LeaveHost(testHost, one)
		}
		if len(c.watched) != 1 {
			t.Errorf("%d hosts are watched", len(c.watched))
		}
	})
}

// TestLateOutcomes: tries that began before the ceiling fell don't change the new one.
func TestLateOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Calls
		limit := adaptive(100, 1)
		for range 100 {
			c.EnterHost(testHost, limit)
		}
		began := time.Now()
		time.Sleep(time.Second)
		for range minOutcomes {
			c.Report(testHost, limit, Outcome{Overloaded: true, Began: began})
		}
		time.Sleep(minWindow)
		c.Report(testHost, limit, Outcome{Overloaded: true, Began: began})
		if got := c.HostCeiling(testHost, limit); got != 70 {
			t.Fatalf("%d after an overload, want 70", got)
		}
		for range 5 * minOutcomes {
			time.Sleep(minWindow / 5)
			c.Report(testHost, limit, Outcome{Overloaded: true, Began: began})
		}
		if got := c.HostCeiling(testHost, limit); got != 70 {
			t.Errorf("%d after failures of calls from before", got)
		}
	})
}

// judged is an adaptive ceiling of 100 with as many calls in flight. Its first window
// begins.
func judged() *Calls {
	c := new(Calls)
	for range 100 {
		c.EnterHost(testHost, adaptive(100, 1))
	}
	c.Report(testHost, adaptive(100, 1), Outcome{Began: time.Now()})
	return c
}

// window reports twenty tries within a second, of which failed failed and the others waited
// for waited, and returns the ceiling after it.
func window(c *Calls, failed int, model string, waited time.Duration) int {
	for n := range 20 {
		time.Sleep(minWindow / 20)
		c.Report(testHost, adaptive(100, 1), Outcome{Overloaded: n < failed, Began: time.Now(), Model: model, Waited: waited})
	}
	return c.HostCeiling(testHost, adaptive(100, 1))
}

// TestAWindowIsJudged: one event, few of them, or many at once say nothing; more than a
// tenth of a window does.
func TestAWindowIsJudged(t *testing.T) {
	fails := func(c *Calls, n int) int {
		for range n {
			c.Report(testHost, adaptive(100, 1), Outcome{Overloaded: true, Began: time.Now()})
		}
		return c.HostCeiling(testHost, adaptive(100, 1))
	}
	for name, test := range map[string]struct {
		hear func(*Calls) int
		want int
	}{
		"a tenth fails":     {func(c *Calls) int { return window(c, 2, "m", time.Second) }, 100},
		"more than a tenth": {func(c *Calls) int { return window(c, 3, "m", time.Second) }, 70},
		"many at once":      {func(c *Calls) int { time.Sleep(time.Nanosecond); return fails(c, 50) }, 100},
		"few, and few later": {func(c *Calls) int {
			time.Sleep(time.Nanosecond)
			fails(c, 9)
			time.Sleep(staleAfter + 1)
			return fails(c, 9)
		}, 100},
		"another model is slower": {func(c *Calls) int {
			window(c, 0, "fast", 100*time.Millisecond)
			return window(c, 0, "slow", time.Second)
		}, 100},
		"the same model is slower": {func(c *Calls) int {
			window(c, 0, "fast", 100*time.Millisecond)
			return window(c, 0, "fast", time.Second)
		}, 70},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := test.hear(judged()); got != test.want {
					t.Errorf("the ceiling is %d, want %d", got, test.want)
				}
			})
		})
	}
}

// TestCeilingRisesAsItFell: three windows took the ceiling from 100 to 34, and three bring
// it to 85, which is what to come near to with care. Answers to few calls raise nothing.
func TestCeilingRisesAsItFell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := judged()
		var got []int
		for range 3 {
			got = append(got, window(c, 20, "m", 0))
		}
		for range 4 {
			got = append(got, window(c, 0, "m", time.Second))
		}
		if want := []int{70, 49, 34, 49, 70, 85, 86}; !slices.Equal(got, want) {
			t.Errorf("ceilings %v, want %v", got, want)
		}
		for range 100 {
			c.LeaveHost(testHost, adaptive(100, 1))
		}
		window(c, 0, "m", time.Second) // has the calls that were in flight at its beginning
		before := c.HostCeiling(testHost, adaptive(100, 1))
		if got := window(c, 0, "m", time.Second); got != before {
			t.Errorf("from %d to %d without calls", before, got)
		}
	})
}

// TestSlowForGood: a model that stays slower does not count as overloaded forever.
func TestSlowForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := judged()
		window(c, 0, "m", 100*time.Millisecond)
		least := 100
		for range 5 {
			least = min(least, window(c, 0, "m", 200*time.Millisecond))
		}
		if least > 35 {
			t.Errorf("%d while it is slower than usual", least)
		}
		for range 40 {
			window(c, 0, "m", 200*time.Millisecond)
		}
		if got := c.HostCeiling(testHost, adaptive(100, 1)); got < 80 {
			t.Errorf("%d once that is usual", got)
		}
	})
}

// TestLightKeyDoesNotOutvoteAnOverload: a key that has most calls finds the host
// overloaded, and one with few calls, which has its share, does not.
func TestLightKeyDoesNotOutvoteAnOverload(t *testing.T) {
	for name, test := range map[string]struct {
		light int
		falls bool
	}{
		"few calls":  {4, true},
		"many calls": {40, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c Calls
				heavy, light := adaptive(100, 1), adaptive(100, 2)
				for range 40 {
					c.EnterHost(testHost, heavy)
				}
				for range test.light {
					c.EnterHost(testHost, light)
				}
				for range 2 * minOutcomes {
					time.Sleep(minWindow / 5)
					c.Report(testHost, heavy, Outcome{Overloaded: true, Began: time.Now(), Model: "m"})
					c.Report(testHost, light, Outcome{Began: time.Now(), Model: "m", Waited: time.Second})
				}
				if got := c.HostCeiling(testHost, light); got < 100 != test.falls {
					t.Errorf("a ceiling of %d", got)
				}
			})
		})
	}
}
