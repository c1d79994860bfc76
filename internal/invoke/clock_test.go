package invoke

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func startedClock(parent context.Context, total time.Time, limit time.Duration, cause error) *clock {
	c := new(clock)
	c.start(parent, total, limit, cause)
	return c
}

// TestClock: an attempt ends when the first of its times is up, neither earlier nor
// later, whatever the timer was set for before.
func TestClock(t *testing.T) {
	type step struct {
		after time.Duration
		do    func(*clock)
	}
	content := func(c *clock) { c.content() }
	follow := func(d time.Duration) func(*clock) { return func(c *clock) { c.follow(d) } }
	pause, resume, stop := (*clock).pause, (*clock).resume, (*clock).stop
	for name, test := range map[string]struct {
		limit time.Duration
		steps []step
		ends  time.Duration // after the last step; the total is 10 minutes
		cause error
	}{
		"the limit":                   {20 * time.Second, nil, 20 * time.Second, errFirstToken},
		"no limit":                    {0, nil, 10 * time.Minute, errTotal},
		"a limit after the total":     {time.Hour, nil, 10 * time.Minute, errTotal},
		"content in time":             {20 * time.Second, []step{{19 * time.Second, content}}, 10*time.Minute - 19*time.Second, errTotal},
		"another try":                 {20 * time.Second, []step{{15 * time.Second, func(c *clock) { c.extend(25 * time.Second) }}}, 25 * time.Second, errFirstToken},
		"another try without a limit": {0, []step{{15 * time.Second, func(c *clock) { c.extend(25 * time.Second) }}}, 10*time.Minute - 15*time.Second, errTotal},
		"silence":                     {20 * time.Second, []step{{time.Second, content}, {0, follow(30 * time.Second)}}, 30 * time.Second, errIdle},
		"silence shorter than the limit": {
			20 * time.Second, []step{{time.Second, content}, {0, follow(2 * time.Second)}}, 2 * time.Second, errIdle,
		},
		"pieces": {20 * time.Second, []step{
			{time.Second, content}, {0, follow(30 * time.Second)},
			{29 * time.Second, pause}, {0, resume}, {29 * time.Second, pause}, {0, resume}, {29 * time.Second, resume},
		}, 30 * time.Second, errIdle},
		"a slow caller": {20 * time.Second, []step{
			{time.Second, content}, {0, follow(5 * time.Second)}, {time.Second, pause}, {time.Minute, resume},
		}, 5 * time.Second, errIdle},
		"a caller that takes nothing": {20 * time.Second, []step{
			{time.Second, content}, {0, follow(5 * time.Second)}, {time.Second, pause},
		}, 10*time.Minute - 2*time.Second, errTotal},
		"the total between pieces": {20 * time.Second, []step{
			{time.Second, content}, {0, follow(8 * time.Minute)}, {5 * time.Minute, resume},
		}, 10*time.Minute - 5*time.Minute - time.Second, errTotal},
		"the end": {20 * time.Second, []step{{time.Second, stop}}, 0, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startedClock(t.Context(), time.Now().Add(10*time.Minute), test.limit, errFirstToken)
				defer c.stop()
				for _, s := range test.steps {
					time.Sleep(s.after)
					if c.Err() != nil {
						t.Fatalf("ended before a step: %v", context.Cause(c))
					}
					s.do(c)
				}
				last := time.Now()
				<-c.Done()
				if after := time.Since(last); after != test.ends || context.Cause(c) != test.cause {
					t.Errorf("%v after %s, want %v after %s", context.Cause(c), after, test.cause, test.ends)
				}
			})
		})
	}
}

// TestClockOfALateAttempt: an attempt that begins when the call's time is up
// calls no provider.
func TestClockOfALateAttempt(t *testing.T) {
	c := startedClock(t.Context(), time.Now(), time.Minute, errFirstToken)
	if context.Cause(c) != errTotal || c.content() {
		t.Errorf("%v", context.Cause(c))
	}
	c.stop()
}

// TestClockAndItsParent: the earlier deadline holds, and the parent's end is the
// clock's.
func TestClockAndItsParent(t *testing.T) {
	now := time.Now()
	soon, cancel := context.WithDeadline(t.Context(), now.Add(time.Minute))
	for _, test := range []struct {
		parent context.Context
		want   time.Time
	}{{t.Context(), now.Add(time.Hour)}, {soon, now.Add(time.Minute)}} {
		c := startedClock(test.parent, now.Add(time.Hour), 0, nil)
		if at, ok := c.Deadline(); !ok || !at.Equal(test.want) {
			t.Errorf("%s, want %s", at, test.want)
		}
		c.stop()
	}
	c := startedClock(soon, now.Add(time.Hour), 0, nil)
	defer c.stop()
	child, stop := context.WithCancel(c)
	defer stop()
	cancel()
	<-child.Done()
	if c.Err() == nil {
		t.Error("the clock goes on")
	}
}
