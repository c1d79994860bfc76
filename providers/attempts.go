package providers

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// The waits between two tries at one target.
const (
	baseWait = 250 * time.Millisecond
	// MaxWait is the longest wait; what a provider asks for beyond it is not
	// waited out.
	MaxWait = 8 * time.Second
)

// ConnectClass is the class of failure of an attempt that got no answer.
const ConnectClass = "connect"

// Attempt is the record of one try at one target.
type Attempt struct {
	Target   int    // index of the target
	Provider string // name of the target's provider
	Model    string
	// Class is the class of failure, empty for a success.
	Class      string
	Status     int           // HTTP status, 0 where none was received
	Wait       time.Duration // before the attempt
	Duration   time.Duration // of the attempt, the wait not included
	FirstToken time.Duration // from the attempt's start to the first content, 0 without any
	Err        error         // nil for a success
}

// Plan is what may be done at one target.
type Plan struct {
	Target   int
	Provider string
	Model    string
	// Retries are the tries after the first.
	Retries int
	// Reserve are the attempts that stay for targets not yet tried: a retry is
	// made only while more are left.
	Reserve int
	// Permit, where set, is asked before each retry.
	Permit func() bool
	// Failed, where set, is told of each failure that Repeat records.
	Failed func()
	// Restart, where set, is told of the wait before each retry, so that the
	// timers of the attempt start anew. The functions of a plan must not call
	// the budget.
	Restart func(wait time.Duration)
}

// Attempts is the budget of one call, over all its targets. It travels in the
// request's context, so that the HTTP client, which repeats what fails before
// an answer began, and the loop above, which repeats the rest and changes
// targets, draw on one budget and write one record.
type Attempts struct {
	mu      sync.Mutex
	left    int
	plan    Plan
	tries   int // at the plan's target
	started time.Time
	current Attempt
	open    bool
	records []Attempt
}

// NewAttempts makes a budget of limit attempts.
func NewAttempts(limit int) *Attempts {
	return &Attempts{left: limit, records: make([]Attempt, 0, 2)}
}

type attemptsKey struct{}

// WithAttempts returns a context that carries the budget.
func WithAttempts(ctx context.Context, a *Attempts) context.Context {
	return context.WithValue(ctx, attemptsKey{}, a)
}

// AttemptsFrom returns the context's budget, nil where there is none: then
// nothing may be repeated.
func AttemptsFrom(ctx context.Context) *Attempts {
	a, _ := ctx.Value(attemptsKey{}).(*Attempts)
	return a
}

// Begin takes the first attempt at a target. False means that none is left.
func (a *Attempts) Begin(plan Plan) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.left <= 0 {
		return false
	}
	a.plan, a.tries = plan, 0
	a.begin(0)
	return true
}

func (a *Attempts) begin(wait time.Duration) {
	a.left--
	a.tries++
	a.started = time.Now().Add(wait)
	a.current = Attempt{Target: a.plan.Target, Provider: a.plan.Provider, Model: a.plan.Model, Wait: wait}
	a.open = true
}

// Content notes that the current attempt's first content arrived and returns
// how long that took.
func (a *Attempts) Content() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.current.FirstToken = time.Since(a.started)
	return a.current.FirstToken
}

// End closes the current attempt's record. It does nothing when none is open,
// and forgets an attempt that did not get past the wait before it.
func (a *Attempts) End(class string, status int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end(class, status, err)
}

func (a *Attempts) end(class string, status int, err error) {
	if !a.open {
		return
	}
	a.open = false
	a.current.Duration = time.Since(a.started)
	if a.current.Duration < 0 { // the wait before it was cut short
		a.left++
		return
	}
	a.current.Class, a.current.Status, a.current.Err = class, status, err
	a.records = append(a.records, a.current)
}

// Again takes another attempt at the same target and returns the wait before
// it: a random part of a bound that doubles with each try, and no less than
// hint, what the provider asked for. False means that the target may not be
// tried again: its retries or the attempts are used up, or the wait is too
// long or does not fit into ctx's deadline.
func (a *Attempts) Again(ctx context.Context, hint time.Duration) (time.Duration, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	wait, ok := a.mayRepeat(ctx, hint)
	if ok {
		a.repeat(wait)
	}
	return wait, ok
}

// Repeat closes the current attempt's record with a failure to get an answer
// and takes another attempt at the same target. False means that it may not be
// tried again; the record is then left open for the caller.
func (a *Attempts) Repeat(ctx context.Context, err error) (time.Duration, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	wait, ok := a.mayRepeat(ctx, 0)
	if !ok {
		return 0, false
	}
	a.end(ConnectClass, 0, err)
	if a.plan.Failed != nil {
		a.plan.Failed()
	}
	a.repeat(wait)
	return wait, true
}

func (a *Attempts) mayRepeat(ctx context.Context, hint time.Duration) (time.Duration, bool) {
	if a.tries > a.plan.Retries || a.left <= a.plan.Reserve || hint > MaxWait {
		return 0, false
	}
	wait := Wait(a.tries-1, hint)
	if !fits(ctx, wait) || a.plan.Permit != nil && !a.plan.Permit() {
		return 0, false
	}
	return wait, true
}

func (a *Attempts) repeat(wait time.Duration) {
	a.begin(wait)
	if a.plan.Restart != nil {
		a.plan.Restart(wait)
	}
}

// Tries counts the attempts at the current target, the running one included.
func (a *Attempts) Tries() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tries
}

// Records returns the closed records, in the order of the attempts.
func (a *Attempts) Records() []Attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.records[:len(a.records):len(a.records)]
}

// Wait is the wait before retry n (the first is 0): full jitter under a bound
// that doubles from 250 ms to MaxWait. Where the provider asked for a wait it
// is at least that and up to a tenth more, so that callers turned away
// together do not come back together.
func Wait(n int, hint time.Duration) time.Duration {
	bound := MaxWait
	if n < 5 {
		bound = baseWait << n
	}
	wait := time.Duration(rand.Int64N(int64(bound) + 1))
	if hint > 0 {
		wait = max(wait, hint+time.Duration(rand.Int64N(int64(hint)/10+1)))
	}
	return wait
}

// fits reports whether a wait leaves time for the attempt after it: a second, or
// half of what is left where that is little.
func fits(ctx context.Context, wait time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		return true
	}
	left := time.Until(deadline)
	return wait <= max(left-time.Second, left/2)
}
