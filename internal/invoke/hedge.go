package invoke

import (
	"cmp"
	"slices"
	"time"
)

// A hedged call: if no answer began in time, a second lane tries the next target
// while the first lane still waits
// (https://research.google/pubs/the-tail-at-scale/). The first lane with an answer
// to hand on settles the call and cancels the other. Only its answer reaches the
// goroutine that hands on, so the caller never gets bytes of two attempts.
//
// For example, with hedge 2s: target a is called at 0 s, target b in addition at 2
// s. b's first content comes at 3 s, so a's attempt ends then, as superseded.

// laneEnd is the outcome of a lane.
type laneEnd struct {
	answer   *attempt // nil for none
	panicked *Panic
}

// race runs the call's lanes until one has something to hand on, and returns
// nil when none has. The other lane may still be ending then.
func (k *call) race() *attempt {
	ends := make(chan laneEnd, 2) // so no lane waits to send
	timer := time.NewTimer(time.Until(k.started.Add(k.policy.Hedge)))
	defer timer.Stop()
	// The first lane's target is taken before its goroutine runs: on a busy machine the
	// time of the hedge may come before that does.
	k.start(false, k.next(), ends)
	var panicked *Panic
	for running := 1; running > 0; {
		select {
		case <-timer.C:
			if i := k.hedgeTarget(); i >= 0 && k.start(true, i, ends) {
				running++
			}
		case end := <-ends:
			if end.answer != nil {
				return end.answer
			}
			if end.panicked != nil {
				panicked = end.panicked
			}
			running--
		}
	}
	if panicked != nil {
		panic(panicked)
	}
	return nil
}

// start runs a lane on a goroutine of its own, from the target at place i. It returns
// false when the call is settled.
func (k *call) start(hedge bool, i int, ends chan<- laneEnd) bool {
	l := k.newLane(hedge)
	if l == nil {
		return false
	}
	k.running.Go(func() {
		var end laneEnd
		defer func() {
			if p := recover(); p != nil {
				// The other lane may still answer. If none does, the caller's
				// goroutine panics, as it does for a call that is not hedged.
				end.panicked = newPanic(p)
				l.end(failed{class: Unknown}, used{})
			}
			ends <- end
		}()
		end.answer = l.run(i)
	})
	return true
}

// hedgeTarget takes the next target for a second lane and returns its place in the
// order. It returns -1 if no target in good health is within the purse, if the
// target's provider has no retry left, or if the call has no attempt left or is
// settled.
func (k *call) hedgeTarget() int {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.settled != nil || k.left <= 0 || k.ctx.Err() != nil {
		return -1
	}
	for i := range k.usable {
		u := &k.usable[i]
		if u.taken || !u.health.sound(now) || !k.enterHost(u) {
			continue
		}
		if !k.pay(u) {
			k.leaveHost(u) // a call without an answer asks again
			continue
		}
		if !u.health.bucket.draw() {
			k.leaveHost(u)
			return -1
		}
		u.taken = true
		return i
	}
	return -1
}

// hedged reports whether the call may have two lanes.
func (k *call) hedged() bool { return k.policy.Hedge > 0 }

// settle makes this lane decide how the call ends, and cancels the other. It
// returns false if the other was faster.
func (l *lane) settle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settled == nil {
		l.settled = l
		for _, other := range l.lanes {
			if other != l {
				other.cancel(errSuperseded)
			}
		}
	}
	return l.settled == l
}

// attempts returns the attempts of all lanes in the order in which they began.
func (k *call) attempts() []Attempt {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.lanes[0].records
	for _, l := range k.lanes[1:] {
		all = append(all, l.records...)
		slices.SortStableFunc(all, func(a, b Attempt) int { return cmp.Compare(a.Started, b.Started) })
	}
	return all
}
