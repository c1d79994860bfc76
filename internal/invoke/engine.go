package invoke

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/inflight"
	"github.com/cadenza-gateway/cadenza/providers"
)

// The defaults of a policy, and its limits.
const (
	DefaultMaxAttempts = 4
	MaxAttempts        = 10
	DefaultTotal       = 120 * time.Second
	DefaultFirstToken  = 20 * time.Second
	DefaultIdle        = 30 * time.Second
	// MaxWeight bounds the weight of one target.
	MaxWeight = 1000
)

const (
	// maxContent bounds the content of a whole answer, in bytes, and of any answer
	// its thoughts and tool calls, which are held until its end.
	maxContent = 16 << 20
)

// Target is one model of one provider.
type Target struct {
	// Name is the provider's name in the configuration.
	Name string
	// Provider is called. A target whose provider is nil or not available is
	// skipped.
	Provider providers.Provider
	// Host is the host that Provider calls, for the ceiling of calls in flight
	// there. It is empty if Provider calls none.
	Host       string
	Model      string
	Parameters providers.Parameters
	Extra      map[string]json.RawMessage
	// Prepared is the result of providers.Prepare.
	Prepared any
	// Bounds are the definition's: see BoundsOf. The engine leaves them to
	// Call.Purse.
	Bounds Bounds
	// Window is the most tokens that the model takes, prompt and answer together; 0:
	// unknown. See call.following.
	Window int64
	// Weight, if above zero, puts the target before the targets without a weight.
	// The order of targets with a weight is drawn for each call: with the weights
	// 3 and 1, the first target is tried first in three of four calls.
	Weight int
}

// String returns PROVIDER/MODEL, or the provider's name if there is no model.
func (t *Target) String() string {
	if t.Model == "" {
		return t.Name
	}
	return t.Name + "/" + t.Model
}

// Searches reports whether the provider would run the search that the parameters ask for.
func (t *Target) Searches() bool {
	return providers.SearchAPI(t.Provider, &providers.Request{Model: t.Model, Parameters: t.Parameters, Extra: t.Extra}) != ""
}

// Policy bounds a call. A zero member means its default.
type Policy struct {
	// MaxAttempts bounds the attempts over all targets. It is raised to the number
	// of targets, so that each can be tried, and is at most the constant
	// MaxAttempts.
	MaxAttempts int
	// Retries is the number of extra tries of each target. Default: 1 if another
	// target follows, else 2.
	Retries *int
	// OnCodes, unless nil, are the only HTTP statuses after which a target is
	// tried again; an empty list allows none. It cannot allow a retry that the
	// class of failure forbids, and has no effect on failures without a status or
	// on whether the next target is tried.
	OnCodes []int
	// Total bounds the call with all attempts and waits, FirstToken a streamed
	// attempt until its first content, Idle the time between two later pieces of
	// a stream.
	Total, FirstToken, Idle time.Duration
	// Hedge, if above zero, is the time after which a call without an answer tries
	// the next target in parallel with the running one. This happens at most once
	// in a call, and not with a target that is ejected or whose provider has no
	// retries left.
	Hedge time.Duration
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
	return p.OnCodes == nil || status == 0 || slices.Contains(p.OnCodes, status)
}

// Call is one call of an endpoint. The engine does not change it.
type Call struct {
	Targets  []Target
	Messages []providers.Message
	// Stream asks for the answer in pieces as they arrive. With Pieces, emit also
	// gets the pieces of thoughts and of tool calls, and the first of them begins the
	// answer: no other target is tried after it. Without Pieces they only show that
	// the provider is at work, and the complete thoughts and tool calls are in the
	// result. A whole answer has them in the result alone.
	Stream, Pieces bool
	Policy         Policy
	// InFlight counts the calls at each target's host. A target whose host has as many
	// as HostLimit allows is skipped. Calls of targets without a host need none.
	InFlight  *inflight.Calls
	HostLimit inflight.HostLimit
	// Committed, if not nil, is called before emit gets the first piece of a stream:
	// with the index of the target that answers, the number of attempts, and the
	// parts that the provider has left out of the request.
	Committed func(target, attempts int, leftOut []string)
	// Purse, if set, is asked before each attempt, also one that a provider's HTTP
	// client makes by itself. A target that it refuses is skipped.
	Purse Purse
	// Terse has the reasons of failures kept without any words of the providers.
	Terse bool
	// Changed, if set, is called with each change of a target's health that the
	// call causes, before Invoke returns. The two lanes of a hedged call may call
	// it at the same time.
	Changed func(*Change)
	// Ask, if set, is called in place of Provider.Invoke, with the index of the target.
	Ask func(ctx context.Context, target int, req *providers.Request) (providers.Stream, error)
	// StartSpan, if set, is called as each attempt begins.
	StartSpan StartSpan
}

// Purse keeps calls within a budget. The two lanes of a hedged call may use it at the
// same time.
type Purse interface {
	// Take reserves the highest cost of one attempt at the target, by its index in
	// Call.Targets, and reports whether the purse covers it. If not, the attempt is not
	// made: another target may still be cheap enough.
	Take(target int) bool
	// Return gives back the reservation for an attempt that was not made after
	// all.
	Return(target int)
}

// Skip is a target that was not tried.
type Skip struct {
	Target int // index in Call.Targets
	Reason error
}

// Result describes a call, also one that failed.
type Result struct {
	providers.Result
	Attempts []Attempt
	// Skipped are the targets that could not be tried.
	Skipped []Skip
	// Served is the index of the target that answered, -1 when none did.
	Served int
	// Estimated reports that the target that answered gave no usage, so that Usage is
	// an estimate, see CountTokens, of the messages and tools and of the answer,
	// thoughts and tool calls among them.
	Estimated bool
	// FirstToken is the time from the call to the first content of a stream or, with
	// Call.Pieces, to its first piece.
	FirstToken time.Duration
	Duration   time.Duration
}

// Engine calls targets. It is safe for concurrent use. It keeps the health of
// targets, so one engine should outlive the configurations that use it.
type Engine struct {
	health healthTable
}

// NewEngine returns an engine with every target healthy.
func NewEngine() *Engine { return &Engine{} }

// Reconsider has the next call try the targets that are left alone for their key,
// quota or model: a new configuration may have mended it. They stay Down until they
// answer. How a target stands that limits the rate, or fails, is no matter of
// configuration.
func (e *Engine) Reconsider() {
	for _, h := range e.health.all() {
		h.mu.Lock()
		if h.record.why.Class != RateLimit {
			h.cool = time.Time{}
		}
		h.mu.Unlock()
	}
}

// SkipReason is a kind of reasons to skip a target.
type SkipReason string

// The kinds of reasons.
const (
	SkipNotConfigured SkipReason = "not_configured"
	SkipUnavailable   SkipReason = "unavailable"
	SkipLeftAlone     SkipReason = "left_alone"
	SkipHostFull      SkipReason = "host_full"
	SkipBudget        SkipReason = "budget"
	SkipWindow        SkipReason = "window"
)

// SkipReasons are all of them.
var SkipReasons = []SkipReason{SkipNotConfigured, SkipUnavailable, SkipLeftAlone, SkipHostFull, SkipBudget, SkipWindow}

// Kind returns the kind of the reason.
func (s *Skip) Kind() SkipReason {
	switch {
	case errors.Is(s.Reason, errNoProvider):
		return SkipNotConfigured
	case errors.Is(s.Reason, errUnavailable):
		return SkipUnavailable
	case errors.Is(s.Reason, ErrHostFull):
		return SkipHostFull
	case errors.Is(s.Reason, ErrBudget):
		return SkipBudget
	case errors.Is(s.Reason, errWindow):
		return SkipWindow
	}
	return SkipLeftAlone
}

// passes reports whether the next call may try the target.
func (s *Skip) passes() bool {
	switch s.Kind() {
	case SkipNotConfigured, SkipUnavailable, SkipWindow:
		return false
	}
	left, ok := errors.AsType[*LeftAlone](s.Reason)
	return !ok || left.Why.Class == "" || !left.Why.Class.row().Final
}

// The reasons to skip a target.
var (
	errNoProvider  = errors.New("no such provider is configured")
	errUnavailable = errors.New("the provider is not available")
	// ErrHostFull is the reason to skip a target whose host has as many calls in
	// flight as it may have.
	ErrHostFull = errors.New("as many calls as may be are in flight at the provider's host")
	// ErrBudget is the reason to skip a target that the call's purse has too little
	// for.
	ErrBudget = errors.New("the budget has no room for what an attempt may cost")
	errWindow = errors.New("its window is no larger than one that was too small for the input")
)

// Invoke calls the targets in order until one answers. emit gets a whole answer
// once, with its complete content. It gets a streamed answer piece by piece, see
// Call.Pieces, and is not called for an empty one. After the first call of emit no
// other attempt is made, so emit never gets bytes of two. Calls of emit never
// overlap, and none happens after Invoke has returned. Invoke returns soon after
// ctx or the policy's time has ended, even if a provider does not. An error of
// emit means that the caller is gone: Invoke then cancels the call. The error of
// Invoke is an *Error.
func (e *Engine) Invoke(ctx context.Context, c *Call, emit func(providers.Delta) error) (Result, error) {
	k := &call{engine: e, Call: c, emit: emit, parent: ctx, started: time.Now()}
	k.policy = c.Policy.withDefaults(len(c.Targets))
	k.deadline = k.started.Add(k.policy.Total)
	k.left = k.policy.MaxAttempts
	k.result.Served = -1
	defer k.giveBack() // also after a panic
	// Deferred functions run in reverse order: the call is cancelled, then
	// its lanes are waited for.
	defer k.running.Wait()
	k.ctx = ctx
	if k.hedged() {
		var cancel context.CancelFunc
		k.ctx, cancel = context.WithDeadlineCause(ctx, k.deadline, errTotal)
		defer cancel()
	}

	k.findUsable()
	k.order()
	var a *attempt
	if k.policy.Hedge > 0 && len(k.usable) > 1 {
		a = k.race()
	} else {
		a = k.newLane(false).run(k.next())
	}
	if a != nil {
		k.deliver(a)
	}
	k.running.Wait()
	k.result.Attempts = k.attempts()
	k.result.Duration = time.Since(k.started)
	if k.result.Served < 0 {
		return k.result, k.failure()
	}
	return k.result, nil
}
