package inflight

import (
	"testing"
	"testing/synctest"
	"time"
)

// busy has n calls in flight at a host.
func busy(c *Calls, n int) {
	for range n {
		c.EnterHost("h", HostLimit{Most: n})
	}
}

func TestOverloadLowersTheCeiling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := HostLimit{Most: 200, Adaptive: true}
		var c Calls
		busy(&c, 50)
		began := time.Now()
		time.Sleep(time.Second)
		c.Overloaded("h", limit, began)
		if got := c.HostCeiling("h", limit); got != 35 {
			t.Errorf("%d after an overload with 50 calls, want 35", got)
		}
		if !c.HostFull("h", limit) || c.EnterHost("h", limit) {
			t.Error("a call is let in beyond the ceiling")
		}
		// The others that began before it say nothing of the new ceiling.
		for range 49 {
			c.Overloaded("h", limit, began)
		}
		if got := c.HostCeiling("h", limit); got != 35 {
			t.Errorf("%d after the failures of calls from before", got)
		}
		time.Sleep(time.Second)
		c.Overloaded("h", limit, time.Now())
		if got := c.HostCeiling("h", limit); got != 24 {
			t.Errorf("%d after another overload, want 24", got)
		}
		if got := c.HostCeiling("other", limit); got != 200 {
			t.Errorf("%d at another host", got)
		}
		fixed := HostLimit{Most: 60}
		if c.HostFull("h", fixed) || c.HostCeiling("h", fixed) != 60 {
			t.Error("the ceiling of a configuration that is not adaptive has changed")
		}
		if got := c.HostCeiling("h", HostLimit{Most: 10, Adaptive: true}); got != 10 {
			t.Errorf("%d where at most 10 are configured", got)
		}
	})
}

func TestAnswersRaiseTheCeiling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := HostLimit{Most: 6, Adaptive: true}
		var c Calls
		busy(&c, 4)
		c.Overloaded("h", limit, time.Now())
		if got := c.HostCeiling("h", limit); got != 2 {
			t.Fatalf("%d after an overload with 4 calls, want 2", got)
		}
		answers := 0
		for c.HostCeiling("h", limit) < 6 {
			c.Answered("h", limit)
			if answers++; answers > 100 {
				t.Fatal("100 answers do not raise it to the most")
			}
		}
		if answers < 10 {
			t.Errorf("%d answers raise it from 2 to 6: too fast", answers)
		}
		if len(c.adapted) != 0 {
			t.Error("a host at the most takes memory")
		}
		// One call of six shows nothing.
		c.Overloaded("h", limit, time.Now().Add(time.Second))
		for range 3 {
			c.LeaveHost("h")
		}
		c.adapted["h"].ceiling = 4
		for range 100 {
			c.Answered("h", limit)
		}
		if got := c.HostCeiling("h", limit); got != 4 {
			t.Errorf("%d after answers of one call at a time, want 4", got)
		}
	})
}

func TestCeilingStaysAboveNothing(t *testing.T) {
	limit := HostLimit{Most: 3, Adaptive: true}
	var c Calls
	for range 20 {
		c.EnterHost("h", limit)
		c.Overloaded("h", limit, time.Now().Add(time.Hour))
		c.LeaveHost("h")
	}
	if c.HostFull("h", limit) {
		t.Error("no call may try whether the host has recovered")
	}
	c.Overloaded("g", HostLimit{Most: 3}, time.Now())
	c.Answered("g", HostLimit{Most: 3})
	if len(c.adapted) != 1 {
		t.Error("a ceiling that is not adaptive is kept")
	}
}
