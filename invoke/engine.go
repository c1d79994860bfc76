package invoke

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/cadenza-gateway/cadenza/providers"
)

// The policy where a call gives none, and its limits.
const (
	DefaultMaxAttempts = 4
	MaxAttempts        = 10
	DefaultTotal       = 120 * time.Second
	DefaultFirstToken  = 20 * time.Second
	DefaultIdle        = 30 * time.Second
)

const (
	// minWhole is the least time a target gets for a whole answer while others
	// are left to try.
	minWhole = 10 * time.Second
	// maxContent bounds the content of a whole answer, in bytes.
	maxContent = 16 << 20
)

// Target is one model of one provider.
type Target struct {
	// Name is the provider's name in the configuration.
	Name string
	// Provider is skipped when it is nil or not available.
	Provider   providers.Provider
	Model      string
	Parameters providers.Parameters
	Extra      map[string]json.RawMessage
}

// Policy bounds a call. A zero member stands for its default.
type Policy struct {
	// MaxAttempts bounds the attempts over all targets: at most the constant
	// of that name, and never fewer than there are targets.
	MaxAttempts int
	// Retries are the extra tries of each target. Default: 1 where another
	// target follows, else 2.
	Retries *int
	// OnCodes, where set, are the only HTTP statuses after which a target is
	// tried again. It cannot add to what the class of failure allows, and does
	// not bear on failures without a status or on the next target.
	OnCodes []int
	// Total bounds the call with all attempts and waits, FirstToken a streamed
	// attempt until its first content, Idle the time between two pieces of a
	// stream after it.
	Total, FirstToken, Idle time.Duration
}

func (p Policy) withDefaults(targets int) Policy {
	if p.MaxAttempts <= 0 {
		p.MaxAttempts = DefaultMaxAttempts
	}
	p.MaxAttempts = min(max(p.MaxAttempts, targets), MaxAttempts)
	if p.Total <= 0 {
		p.Total = DefaultTotal
	}
	if p.FirstToken <= 0 {
		p.FirstToken = DefaultFirstToken
	}
	if p.Idle <= 0 {
		p.Idle = DefaultIdle
	}
	return p
}

func (p *Policy) retries(last bool) int {
	if p.Retries != nil {
		return max(0, *p.Retries)
	}
	if last {
		return 2
	}
	return 1
}

func (p *Policy) allowsStatus(status int) bool {
	if len(p.OnCodes) == 0 || status == 0 {
		return true
	}
	for _, code := range p.OnCodes {
		if code == status {
			return true
		}
	}
	return false
}

// Call is one call of an endpoint. The engine does not change it.
type Call struct {
	Targets  []Target
	Messages []providers.Message
	// Stream asks for the answer in pieces, as they arrive.
	Stream bool
	Policy Policy
	// Committed, where set, is told which of Targets answers, and at which
	// attempt, before emit gets the first piece of a stream.
	Committed func(target, attempts int)
}

// Attempt is the record of one attempt.
type Attempt = providers.Attempt

// Skip is a target that was not tried.
type Skip struct {
	Target int // index in Call.Targets
	Reason error
}

// Result is what is known of a call, a failed one too.
type Result struct {
	providers.Result
	Attempts []Attempt
	// Skipped are the targets that could not be tried.
	Skipped []Skip
	// Served is the index of the target that answered, -1 when none did.
	Served int
	// FirstToken is the time from the call to the first content of a stream.
	FirstToken time.Duration
	Duration   time.Duration
}

// Engine calls targets. It is safe for concurrent use. It keeps the health of
// targets, so one engine should outlive the configurations that use it.
type Engine struct {
	health healthTable
}

// NewEngine returns an engine that thinks well of every target.
func NewEngine() *Engine { return &Engine{} }

// The reasons to skip a target.
var (
	errNoProvider  = errors.New("no such provider is configured")
	errUnavailable = errors.New("the provider is not available")
	errEjected     = errors.New("the target failed lately and is left alone for a while")
)

// Invoke calls the targets in order until one answers. Of a whole answer emit
// gets the complete content, once; of a streamed one each piece as it arrives,
// not at all where the answer is empty. Once emit was called no other attempt
// is made, so it never sees bytes of two. An error of emit means that the
// caller is gone: the call is cancelled. The error is an *Error.
func (e *Engine) Invoke(ctx context.Context, c *Call, emit func(providers.Delta) error) (Result, error) {
	k := call{engine: e, Call: c, emit: emit, parent: ctx, started: time.Now()}
	k.policy = c.Policy.withDefaults(len(c.Targets))
	k.budget = providers.NewAttempts(k.policy.MaxAttempts)
	k.result.Served = -1
	total, cancel := context.WithTimeoutCause(providers.WithAttempts(ctx, k.budget), k.policy.Total, errTotal)
	defer cancel()
	k.ctx = total

	k.findUsable()
	done := false
	for i := 0; i < len(k.usable) && !done; i++ {
		h := k.usable[i].health
		if !h.admit(time.Now()) {
			k.result.Skipped = append(k.result.Skipped, Skip{k.usable[i].index, errEjected})
			continue
		}
		done = k.target(i)
	}
	if !done && len(k.failures) == 0 {
		// All are ejected. One is tried all the same, the one that would be let
		// in soonest: never to try would turn a hiccup into an outage.
		if i := k.soonest(time.Now()); i >= 0 {
			k.dropSkip(k.usable[i].index)
			k.forced = true
			k.target(i)
		}
	}

	k.result.Attempts = k.budget.Records()
	k.result.Duration = time.Since(k.started)
	if k.result.Served >= 0 {
		return k.result, nil
	}
	return k.result, k.failure()
}

// usable is a target that may be tried.
type usable struct {
	index  int
	health *health
}

// failed is the last failure of a target.
type failed struct {
	class Class
	hint  time.Duration
	err   error
}

// mayRepeat tells whether the same target may be tried again. One that was
// slow, or limits without saying for how long, is left for another while there
// is one.
func (f failed) mayRepeat(last bool) bool {
	switch f.class {
	case Slow:
		return last
	case RateLimit:
		return last || f.hint > 0
	}
	return f.class.row().Retry
}

// call is the state of one Invoke.
type call struct {
	*Call
	engine    *Engine
	emit      func(providers.Delta) error
	parent    context.Context // the caller's
	ctx       context.Context // with the total deadline
	policy    Policy
	budget    *providers.Attempts
	usable    []usable
	forced    bool // the target is tried although it is ejected
	committed bool
	failures  []failed
	started   time.Time
	result    Result
}

func (k *call) findUsable() {
	k.usable = make([]usable, 0, len(k.Targets))
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
		k.usable = append(k.usable, usable{i, k.engine.health.of(t.Name, t.Model)})
	}
}

// soonest is the usable target that is let in first, -1 when there is none.
func (k *call) soonest(now time.Time) int {
	best, when := -1, time.Time{}
	for i := range k.usable {
		if t := k.usable[i].health.opens(now); best < 0 || t.Before(when) {
			best, when = i, t
		}
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

// later counts the targets after i that would be let in at present.
func (k *call) later(i int) int {
	if k.forced {
		return 0
	}
	n, now := 0, time.Now()
	for _, u := range k.usable[i+1:] {
		if u.health.lets(now) {
			n++
		}
	}
	return n
}

// target tries one target until it answers or may not be tried again. It tells
// whether the call is over.
func (k *call) target(i int) bool {
	u := k.usable[i]
	t := &k.Targets[u.index]
	later := k.later(i)
	req := &providers.Request{
		Model: t.Model, Messages: k.Messages, Parameters: t.Parameters, Extra: t.Extra, Stream: k.Stream,
	}
	a := attempt{call: k, target: t, index: u.index, later: later}
	began := k.budget.Begin(providers.Plan{
		Target: u.index, Provider: t.Name, Model: t.Model,
		Retries: k.policy.retries(later == 0), Reserve: later,
		Permit:  func() bool { return u.health.permitRetry(later == 0) },
		Failed:  func() { u.health.failed(time.Now(), Connect, 0) },
		Restart: a.restart,
	})
	settled := false
	defer func() {
		// The attempts are used up, or a provider panics.
		if !settled {
			u.health.release()
		}
	}()
	if !began {
		return true
	}
	for {
		result, err := a.do(req)
		settled = true
		if err == nil {
			k.budget.End("", http.StatusOK, nil)
			u.health.succeeded(time.Now())
			if result.Model == "" {
				result.Model = t.Model
			}
			k.result.Result, k.result.Served = result, u.index
			return true
		}
		if k.committed {
			// What was said so far was paid for, too.
			k.result.Result = result
		}
		f := failed{class: Classify(err), err: err}
		status, advised := 0, true
		if e, ok := errors.AsType[*providers.Error](err); ok {
			status, f.hint = e.Status, e.RetryAfter
			advised = e.Advice != providers.DoNotRetry
		} else if e, ok := errors.AsType[*providers.ConnectError](err); ok {
			advised = !e.Permanent
		}
		k.budget.End(string(f.class), status, err)
		u.health.failed(time.Now(), f.class, f.hint)
		row := f.class.row()
		if !k.committed && advised && k.policy.allowsStatus(status) && f.mayRepeat(later == 0) {
			if wait, again := k.budget.Again(k.ctx, f.hint); again {
				if err := sleep(k.ctx, wait); err == nil {
					continue
				}
				f = failed{err: k.cause(k.ctx, k.ctx.Err())}
				f.class = Classify(f.err)
				k.budget.End(string(f.class), 0, f.err)
				row = f.class.row()
			}
		}
		k.failures = append(k.failures, f)
		return k.committed || !row.Next
	}
}

// sleep waits, or returns ctx's error when it ends first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
