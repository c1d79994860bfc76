package invoke

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/providers"
)

// outage is a provider that is down for a while.
type outage struct {
	fails    script // how a call ends while it is down
	from, to time.Time

	mu            sync.Mutex
	running, most int         // calls while it is down, from settled on
	settled       time.Time   // when it should be known to be down
	calls         []time.Time // while it is down, from settled on
}

func (o *outage) Invoke(ctx context.Context, req *providers.Request) (providers.Stream, error) {
	now := time.Now()
	if now.Before(o.from) || !now.Before(o.to) {
		return scripted(says("first")).Invoke(ctx, req)
	}
	if now.After(o.settled) {
		o.mu.Lock()
		o.calls = append(o.calls, now)
		o.running++
		o.most = max(o.most, o.running)
		o.mu.Unlock()
		defer func() {
			o.mu.Lock()
			o.running--
			o.mu.Unlock()
		}()
	}
	if o.fails.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return scripted(o.fails).Invoke(ctx, req)
}

// TestATargetThatIsBackServesAgainSoon has traffic on a target that is down for
// a while, with another to fall back on.
func TestATargetThatIsBackServesAgainSoon(t *testing.T) {
	if raceEnabled {
		// Hundreds of timers that end contexts within a bubble of fake time break
		// the detector's own memory ("CHECK failed", or a segmentation fault in it).
		t.Skip("the race detector does not survive the timers of this test; it runs without")
	}
	for _, test := range []struct {
		name     string
		fails    script
		lasts    time.Duration
		within   time.Duration // it serves again
		apart    time.Duration // two tries at it while it is down, at least
		patience time.Duration // of callers; 0 for no limit
	}{
		{"503, a minute", script{after: 300 * time.Millisecond, err: status(503)}, time.Minute, 5 * time.Second, 4 * time.Second, 0},
		{"503, seven minutes", script{after: 300 * time.Millisecond, err: status(503)}, 7*time.Minute + 13*time.Second, 5 * time.Second, 4 * time.Second, 0},
		{"refused, seven minutes", fails(&providers.ConnectError{Err: errors.New("refused")}), 7 * time.Minute, 5 * time.Second, 4 * time.Second, 0},
		{"cut, seven minutes", script{after: time.Second, err: &providers.Error{Kind: providers.Truncated}}, 7 * time.Minute, 6 * time.Second, 4 * time.Second, 0},
		// Each try holds a caller up for as long as it takes, so they are rarer.
		{"hangs, half an hour", script{hang: true}, 30 * time.Minute, time.Minute, 59 * time.Second, 0},
		{"hangs longer than callers wait", script{hang: true}, 30 * time.Minute, 10 * time.Second, 9 * time.Second, 5 * time.Second},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(test.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					began := time.Now()
					first := &outage{fails: test.fails, from: began.Add(time.Minute)}
					first.to = first.from.Add(test.lasts)
					first.settled = first.from.Add(50 * time.Second)
					e := NewEngine()
					c := &Call{
						Targets: []Target{target("a", first), target("b", scripted(says("second")))}, Stream: stream,
						Policy: Policy{Total: 40 * time.Second, FirstToken: 20 * time.Second},
					}
					back := time.Time{}
					var mu sync.Mutex
					var wait sync.WaitGroup
					for !time.Now().After(first.to.Add(2 * time.Minute)) {
						time.Sleep(100 * time.Millisecond)
						wait.Go(func() {
							ctx := t.Context()
							// By then the waiting callers have found a target that hangs.
							if test.patience > 0 && time.Now().After(first.settled) {
								// They leave without a word of it before.
								var leave context.CancelFunc
								ctx, leave = context.WithCancel(ctx)
								defer leave()
								defer time.AfterFunc(test.patience, leave).Stop()
							}
							began := time.Now()
							var out caller
							r, err := e.Invoke(ctx, c, out.emit)
							if err != nil && test.patience == 0 {
								t.Errorf("a caller got %v", err)
							}
							mu.Lock()
							defer mu.Unlock()
							if r.Served == 0 && !began.Before(first.to) && (back.IsZero() || began.Before(back)) {
								back = began
							}
						})
					}
					wait.Wait()
					if took := back.Sub(first.to); back.IsZero() || took > test.within {
						t.Errorf("stream=%v: back only after %s", stream, took)
					}
					if first.most > 1 {
						t.Errorf("stream=%v: %d calls at once went to a target that is down", stream, first.most)
					}
					for i := 1; i < len(first.calls); i++ {
						if apart := first.calls[i].Sub(first.calls[i-1]); apart < test.apart {
							t.Errorf("stream=%v: tried again after %s", stream, apart)
							break
						}
					}
				})
			})
		}
	}
}

// A stream that decides whether its target comes back does so by its first
// content: the others need not wait for its end.
func TestTheFirstContentOfAProbeBringsItsTargetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEngine()
		long := says("a", "a")
		long.steps[1].after = time.Minute
		a := target("a", scripted(long))
		c := &Call{Targets: []Target{a, target("b", scripted(says("b")))}, Stream: true, Policy: Policy{Idle: time.Hour}}
		eject(t, e, a)
		time.Sleep(probeEvery)
		var wait sync.WaitGroup
		for range 2 {
			wait.Go(func() {
				if _, err, out := runOn(t, e, c); err != nil || out.text() != "aa" {
					t.Errorf("error %v, answer %q", err, out.text())
				}
			})
			time.Sleep(time.Second)
		}
		wait.Wait()
	})
}

// An answer counts from its first content on, and no longer when it breaks off.
func TestAStreamThatBreaksOffCountsAsFailed(t *testing.T) {
	broken := script{steps: []step{{say: "a"}, {after: time.Second, err: &providers.Error{Kind: providers.Truncated}}}}
	for _, test := range []struct {
		complete, broken int
		ejected          bool
	}{
		{0, 19, false}, {0, 20, true}, {10, 10, true}, {11, 10, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := NewEngine()
			a := target("a", nil)
			for i := range test.complete + test.broken {
				a.Provider = scripted(says("a"))
				if i >= test.complete {
					a.Provider = scripted(broken)
				}
				_, err, _ := runOn(t, e, &Call{Targets: []Target{a}, Stream: true})
				if (err != nil) != (i >= test.complete) {
					t.Fatalf("call %d: %v", i, err)
				}
			}
			if ejected := !admissionTo(e, "a").sound(time.Now()); ejected != test.ejected {
				t.Errorf("%d complete and %d broken: ejected=%v", test.complete, test.broken, ejected)
			}
		})
	}
}

func TestAProbeThatIsLimitedCoolsItsTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEngine()
		p := scripted(fails(&providers.Error{Status: 429, RetryAfter: time.Minute}), says("a"))
		a := target("a", p)
		c := &Call{Targets: []Target{a, target("b", scripted(says("b")))}}
		eject(t, e, a)
		limited := time.Time{}
		for {
			time.Sleep(100 * time.Millisecond)
			r, err, _ := runOn(t, e, c)
			if err != nil {
				t.Fatal(err)
			}
			if p.calls() == 1 && limited.IsZero() {
				limited = time.Now()
			}
			if r.Served == 0 {
				break
			}
		}
		if took := time.Since(limited); took < time.Minute || took > time.Minute+100*time.Millisecond {
			t.Errorf("served again after %s", took)
		}
	})
}

// cuts is a single target that breaks off, before any content, three of ten
// calls, at once. The others take their time.
type cuts struct {
	mu     sync.Mutex
	random *rand.Rand
	answer script
}

func (p *cuts) Invoke(ctx context.Context, req *providers.Request) (providers.Stream, error) {
	p.mu.Lock()
	cut := p.random.IntN(10) < 3
	p.mu.Unlock()
	if cut {
		return scripted(script{steps: []step{{}, {err: &providers.Error{Kind: providers.Truncated}}}}).Invoke(ctx, req)
	}
	return scripted(p.answer).Invoke(ctx, req)
}

// TestThirtyPercentCutsOfASingleTarget wants every call answered that has
// attempts left, however many calls there are at once or how few.
func TestThirtyPercentCutsOfASingleTarget(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector does not survive the timers of this test; it runs without")
	}
	long := slowly(time.Second, "one ", "two ", "three")
	for i := range long.steps[1:] {
		long.steps[i+1].after = 10 * time.Second
	}
	for _, test := range []struct {
		name    string
		answer  script
		callers int
		gap     time.Duration
	}{
		{"long answers, many callers", long, 64, 0},
		{"long answers, some callers", long, 8, time.Second},
		{"short answers, many callers", says("fine"), 64, 100 * time.Millisecond},
		{"short answers, seldom asked for", says("fine"), 1, 2 * time.Second},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(test.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := NewEngine()
					c := &Call{
						Targets: []Target{target("a", &cuts{random: rand.New(rand.NewPCG(1, 2)), answer: test.answer})}, Stream: stream,
						Policy: Policy{MaxAttempts: 6, Retries: retries(5)},
					}
					const calls = 4096
					early, failed := 0, 0
					var mu sync.Mutex
					var wait sync.WaitGroup
					for range test.callers {
						wait.Go(func() {
							for range calls / test.callers {
								time.Sleep(test.gap)
								r, err, _ := runOn(t, e, c)
								mu.Lock()
								if err != nil {
									failed++
									if len(r.Attempts) < 6 {
										early++
									}
								}
								mu.Unlock()
							}
						})
					}
					wait.Wait()
					t.Logf("stream=%v: %d of %d failed, %d of them with attempts left", stream, failed, calls, early)
					// Six cuts in a row, 0.07 %, are three calls. Which goroutine draws
					// which is up to the scheduler; twenty are out of its reach.
					if early > 0 || failed > 20 {
						t.Errorf("stream=%v: %d of %d failed, %d of them with attempts left", stream, failed, calls, early)
					}
				})
			})
		}
	}
}

// The caller whose call finds the target still down loses no more time to it.
func TestAFailedProbeIsNotRepeatedWhileAnotherTargetIsLeft(t *testing.T) {
	for _, failure := range []error{status(503), &providers.ConnectError{Err: errors.New("refused")}} {
		synctest.Test(t, func(t *testing.T) {
			e := NewEngine()
			p := scripted(fails(failure))
			a := target("a", p)
			eject(t, e, a)
			time.Sleep(probeEvery)
			r, err, out := runOn(t, e, &Call{Targets: []Target{a, target("b", scripted(says("b")))}, Policy: Policy{Retries: retries(3)}})
			if err != nil || out.text() != "b" || p.calls() != 1 || r.Duration != 0 {
				t.Errorf("error %v, answer %q after %s, %d calls", err, out.text(), r.Duration, p.calls())
			}
		})
	}
}

type panicking struct{}

func (panicking) Invoke(context.Context, *providers.Request) (providers.Stream, error) {
	panic("of the provider")
}

// A burst of calls fails in part at once, and the others take their time: most
// of them will be answered, so the target is not left alone.
func TestABurstOfCallsIsJudgedByThoseThatStillRun(t *testing.T) {
	for _, stream := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e := NewEngine()
			c := &Call{
				Targets: []Target{target("a", &cuts{random: rand.New(rand.NewPCG(3, 4)), answer: slowly(8*time.Second, "fine")})}, Stream: stream,
				Policy: Policy{MaxAttempts: 6, Retries: retries(5)},
			}
			var wait sync.WaitGroup
			for range 200 {
				wait.Go(func() { runOn(t, e, c) })
			}
			for range 16 {
				time.Sleep(500 * time.Millisecond)
				if !admissionTo(e, "a").sound(time.Now()) {
					t.Errorf("stream=%v: the target is left alone", stream)
				}
			}
			wait.Wait()
			for i, s := range e.health.get("a", "a-model").slots {
				if s.running != 0 {
					t.Errorf("stream=%v: %d calls seem to run on in slot %d", stream, s.running, i)
				}
			}
		})
	}
}

// A target that hangs is not excused by the calls that have yet to find out.
func TestATargetThatHangsIsLeftAloneSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEngine()
		began := time.Now()
		c := &Call{
			Targets: []Target{target("a", scripted(script{hang: true})), target("b", scripted(says("b")))}, Stream: true,
			Policy: Policy{FirstToken: 20 * time.Second},
		}
		var wait sync.WaitGroup
		for admissionTo(e, "a").sound(time.Now()) && time.Since(began) < time.Minute {
			time.Sleep(100 * time.Millisecond)
			wait.Go(func() { runOn(t, e, c) })
		}
		if took := time.Since(began); took < 20*time.Second || took > 26*time.Second {
			t.Errorf("left alone after %s", took)
		}
		wait.Wait()
	})
}
