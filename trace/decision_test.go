package trace

import (
	"bytes"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestTracesOfADecision checks that the ids of a decision's traces are in the range
// of TracesOf for any start of the counter, and that few other ids are.
func TestTracesOfADecision(t *testing.T) {
	authority := mustAuthority(t, "w")
	at := time.UnixMilli(1790000000123)
	kinds := []Kind{KindPrompt, KindEndpoint, KindRemoteConfig}
	for _, counter := range []uint64{0, 1, 1<<30 - 100, counterMask - MaxDecisionTraces - 1, counterMask - MaxDecisionTraces, counterMask - 1, counterMask} {
		authority.millis, authority.counter = at.UnixMilli(), counter
		decision := authority.Decide(at, MaxDecisionTraces)
		id := decision.ID()
		if !authority.VerifyDecision(id) || id.counter() != decision.counter {
			t.Errorf("counter %d: %s is no id of a decision, its counter is %d", counter, id, id.counter())
		}
		if _, ok := authority.Verify(id); ok {
			t.Errorf("%s passes for the id of a trace", id)
		}
		var ids []ID
		for i := range MaxDecisionTraces {
			kind := kinds[i%len(kinds)]
			traceID := decision.Trace(kind, i)
			first, last := TracesOf(id, kind)
			if bytes.Compare(traceID[:], first[:]) < 0 || bytes.Compare(traceID[:], last[:]) > 0 {
				t.Errorf("counter %d: the trace %d is %s, not between %s and %s", counter, i, traceID, first, last)
			}
			if got, ok := authority.Verify(traceID); !ok || got != kind || authority.VerifyDecision(traceID) {
				t.Errorf("%s is of kind %v, %t", traceID, got, ok)
			}
			if before, _ := TracesOf(id, kind); before.counter() <= id.counter() {
				t.Errorf("the range of %s begins with the decision itself", id)
			}
			ids = append(ids, traceID)
		}
		next := authority.New(KindPrompt, at)
		if next.millis() == id.millis() && next.counter() <= ids[len(ids)-1].counter() {
			t.Errorf("counter %d: the id after the decision's is %s", counter, next)
		}
	}
}

func TestDecisionsAreApart(t *testing.T) {
	authority := mustAuthority(t, "w")
	var mu sync.Mutex
	var all []ID
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				d := authority.Decide(time.UnixMilli(1790000000123), 3)
				mu.Lock()
				all = append(all, d.ID(), d.Trace(KindPrompt, 0), d.Trace(KindPrompt, 1), d.Trace(KindPrompt, 2))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.SortFunc(all, func(a, b ID) int { return bytes.Compare(a[:], b[:]) })
	if n := len(slices.Compact(all)); n != 8*500*4 {
		t.Errorf("%d ids differ", n)
	}
}

func TestDecisionBounds(t *testing.T) {
	d := mustAuthority(t, "w").Decide(time.Now(), 1)
	for name, f := range map[string]func(){
		"too many":  func() { mustAuthority(t, "w").Decide(time.Now(), MaxDecisionTraces+1) },
		"past last": func() { d.Trace(KindPrompt, 1) },
		"negative":  func() { d.Trace(KindPrompt, -1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}
