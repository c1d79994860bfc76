package invoke

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cadenza-gateway/cadenza/providers"
)

// call is the state of one Invoke.
type call struct {
	*Call
	engine   *Engine
	emit     func(providers.Delta) error
	parent   context.Context // the caller's
	ctx      context.Context // of a hedged call: that of its lanes; else parent
	policy   Policy
	started  time.Time
	deadline time.Time      // the total one
	running  sync.WaitGroup // of a hedged call: its lanes

	// Used by the goroutine that called Invoke only.
	committed bool
	broken    *failed // why the attempt that was to be handed on failed

	mu       sync.Mutex // guards the fields below, because two lanes may run
	usable   []usable
	tried    bool // a target was let in
	lanes    []*lane
	settled  *lane // decided how the call ends
	left     int   // attempts that may still be begun
	failures []failed
	result   Result

	countPrompt sync.Once // the lanes may both count
	promptCount int64     // tokens of the messages, an estimate

	// Memory for what most calls need: one lane with one attempt at one of two
	// targets.
	first      lane
	firstLanes [1]*lane
	firstPlace [2]usable
}

// usable is a target that may be tried.
type usable struct {
	index  int // in Call.Targets
	health admission
	taken  bool // by a lane, or passed over
	held   bool // a place at its host
	// paid: taken from the purse, for an attempt that has not begun. refused: the
	// purse had too little.
	paid, refused bool
}

func (k *call) findUsable() {
	if k.usable = k.firstPlace[:0]; len(k.Targets) > len(k.firstPlace) {
		k.usable = make([]usable, 0, len(k.Targets))
	}
	for i := range k.Targets {
		t := &k.Targets[i]
		if t.Provider == nil {
			k.result.Skipped = append(k.result.Skipped, Skip{i, errNoProvider})
			continue
		}
		if err := providers.Availability(t.Provider); err != nil {
			k.result.Skipped = append(k.result.Skipped, Skip{i, fmt.Errorf("%w: %w", errUnavailable, err)})
			continue
		}
		health := k.engine.health.of(t.Name, t.Model)
		if health.stuck.Load() >= maxAbandoned {
			k.result.Skipped = append(k.result.Skipped, Skip{i, errAbandoned})
			continue
		}
		k.usable = append(k.usable, usable{index: i, health: admission{health: health}})
	}
}

// next takes the next target that lets a call in, and returns its place in the
// order, or -1 when there is none. Where no target has let this call in, next
// takes the one that would soonest: not to try at all would turn a hiccup into an
// outage. The target that it takes is paid for.
func (k *call) next() int {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.usable {
		u := &k.usable[i]
		if u.taken {
			continue
		}
		u.taken = true
		if !k.enterHost(u) {
			k.result.Skipped = append(k.result.Skipped, Skip{u.index, ErrHostFull})
			continue
		}
		if !u.health.admit(now) {
			k.leaveHost(u)
			k.result.Skipped = append(k.result.Skipped, Skip{u.index, u.health.leftAlone(now)})
			continue
		}
		if k.pay(u) {
			k.tried = true
			return i
		}
		u.health.release()
		k.refuse(u)
	}
	if k.tried || len(k.usable) == 0 {
		return -1
	}
	k.tried = true
	for {
		soonest := k.soonest(now)
		if soonest < 0 {
			return -1
		}
		u := &k.usable[soonest]
		k.dropSkip(u.index)
		if k.pay(u) {
			return soonest
		}
		k.refuse(u)
	}
}

// soonest returns the usable target that will let a call in first, of those with
// a place at their host that the purse has not refused, or -1. It takes that place.
func (k *call) soonest(now time.Time) int {
	best, when := -1, time.Time{}
	for i := range k.usable {
		u := &k.usable[i]
		t := u.health.opens(now)
		if u.refused || best >= 0 && !t.Before(when) || !k.enterHost(u) {
			continue
		}
		if best >= 0 {
			k.leaveHost(&k.usable[best])
		}
		best, when = i, t
	}
	return best
}

func (k *call) dropSkip(index int) {
	for i := range k.result.Skipped {
		if k.result.Skipped[i].Target == index {
			k.result.Skipped = append(k.result.Skipped[:i], k.result.Skipped[i+1:]...)
			return
		}
	}
}

// later counts the targets not tried yet that would be let in at present.
func (k *call) later() int {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.laterLocked(now)
}

func (k *call) laterLocked(now time.Time) int {
	n := 0
	for i := range k.usable {
		if u := &k.usable[i]; !u.taken && u.health.lets(now) && !k.hostFull(u) {
			n++
		}
	}
	return n
}

// tell calls Changed with a change of a target's health; nil is none.
func (k *call) tell(c *Change) {
	if c != nil && k.Changed != nil {
		k.Changed(c)
	}
}

func (k *call) addFailure(f failed) {
	k.mu.Lock()
	k.failures = append(k.failures, f)
	k.mu.Unlock()
}
