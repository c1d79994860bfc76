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
	ctx      context.Context // the lanes' context if the call is hedged, else parent
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
	tooSmall int64 // the largest window that the input exceeds; 0: none is known
	failures []failed
	result   Result

	countPrompt sync.Once // the lanes may both count
	promptCount int64     // tokens of the messages, an estimate

	// Memory for most calls: one lane with one attempt at one of two
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
		k.usable = append(k.usable, usable{index: i, health: admission{health: k.engine.health.get(t.Name, t.Model)}})
	}
}

// next takes the next target that admits a call and returns its place in the
// order, or -1. If no target has admitted this call, next takes the one that
// would do so soonest: not to try at all would turn a hiccup into an outage. next
// also pays for the target.
func (k *call) next() int {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := k.following(); i >= 0; i = k.following() {
		u := &k.usable[i]
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

// soonest returns the usable target that will admit a call first, or -1. It skips a
// target without a place at its host, and one that the purse has refused. It takes
// the place.
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

// later counts the targets not tried yet that would be let in now. It holds k.mu.
func (k *call) later(now time.Time) int {
	n := 0
	for i := range k.usable {
		if u := &k.usable[i]; !u.taken && u.health.admits(now) && !k.hostFull(u) {
			n++
		}
	}
	return n
}

// tell calls Changed if c is not nil.
func (k *call) tell(c *Change) {
	if c != nil && k.Changed != nil {
		k.Changed(c)
	}
}

func (k *call) addFailure(f failed) {
	k.mu.Lock()
	k.failures = append(k.failures, f)
	if f.class == ContextLength {
		k.tooSmall = max(k.tooSmall, k.windowOf(f))
	}
	k.mu.Unlock()
}
