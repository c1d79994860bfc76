package invoke

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/inflight"
	"github.com/cadenza-gateway/cadenza/providers"
)

// The policy where a call gives none, and its limits.
const (
	DefaultMaxAttempts = 4
	MaxAttempts        = 10
	DefaultTotal       = 120 * time.Second
	DefaultFirstToken  = 20 * time.Second
	DefaultIdle        = 30 * time.Second
	// MaxWeight bounds the weight of a target.
	MaxWeight = 1000
)

const (
	// minWhole is the least time a target gets for a whole answer while others
	// are left to try.
	minWhole = 10 * time.Second
	// maxAbandoned bounds the calls of one target that go on though they have
	// ended, because its provider ignores their contexts: each holds a goroutine,
	// and a connection perhaps. At it the target is skipped.
	maxAbandoned = 64
	// maxContent bounds the content of a whole answer, in bytes.
	maxContent = 16 << 20
)

// Target is one model of one provider.
type Target struct {
	// Name is the provider's name in the configuration.
	Name string
	// Provider is skipped when it is nil or not available.
	Provider providers.Provider
	// Host is what Provider sends its requests to, for the ceiling of calls in
	// flight there. Empty: it calls none.
	Host       string
	Model      string
	Parameters providers.Parameters
	Extra      map[string]json.RawMessage
	// Weight, where above zero, puts the target before those without one, and
	// among those with one in an order that is drawn anew for each call: a
	// target comes first as often as its weight is part of the sum.
	Weight int
}

// Policy bounds a call. A zero member stands for its default.
type Policy struct {
	// MaxAttempts bounds the attempts over all targets: at most the constant
	// of that name, and never fewer than there are targets.
	MaxAttempts int
	// Retries are the extra tries of each target. Default: 1 where another
	// target follows, else 2.
	Retries *int
	// OnCodes, unless nil, are the only HTTP statuses after which a target is
	// tried again: none where it is empty. It cannot add to what the class of
	// failure allows, and does not bear on failures without a status or on the
	// next target.
	OnCodes []int
	// Total bounds the call with all attempts and waits, FirstToken a streamed
	// attempt until its first content, Idle the time between two pieces of a
	// stream after it.
	Total, FirstToken, Idle time.Duration
	// Hedge, where above zero, is the time that a call may go without an answer,
	// counted from its start, until the next target is started beside the one
	// that runs. It happens once in a call at most, and not with a target that
	// is ejected or whose provider has no retries left.
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
	// Stream asks for the answer in pieces, as they arrive.
	Stream bool
	Policy Policy
	// InFlight, where set, counts the calls at each target's host. A target
	// whose host has HostLimit of them is skipped.
	InFlight  *inflight.Calls
	HostLimit int
	// Committed, where set, is told which of Targets answers, and at which
	// attempt, before emit gets the first piece of a stream.
	Committed func(target, attempts int)
}

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
	errAbandoned   = fmt.Errorf("%d of its calls go on although they have ended: the provider ignores their contexts", maxAbandoned)
	errEjected     = errors.New("the target failed lately and is left alone for a while")
	// ErrHostFull is the reason to skip a target whose host has as many calls in
	// flight as it may have.
	ErrHostFull = errors.New("as many calls as may be are in flight at the provider's host")
)

// Invoke calls the targets in order until one answers. Of a whole answer emit
// gets the complete content, once; of a streamed one each piece as it arrives,
// not at all where the answer is empty. Once emit was called no other attempt
// is made, so it never sees bytes of two; it is called by one goroutine at a
// time, and not after Invoke has returned. Invoke returns soon after the end of
// ctx or of the time that the policy gives, even where a provider does not. An error of emit means that the caller is gone: the call is
// cancelled. The error is an *Error.
func (e *Engine) Invoke(ctx context.Context, c *Call, emit func(providers.Delta) error) (Result, error) {
	k := &call{engine: e, Call: c, emit: emit, parent: ctx, started: time.Now()}
	k.policy = c.Policy.withDefaults(len(c.Targets))
	k.left = k.policy.MaxAttempts
	k.result.Served = -1
	defer k.leaveHosts() // what no lane has left, also by a panic
	// Cancelled first, whatever happens: what runs is then waited for.
	defer k.running.Wait()
	var cancel context.CancelFunc
	k.ctx, cancel = context.WithTimeoutCause(ctx, k.policy.Total, errTotal)
	defer cancel()

	k.findUsable()
	k.order()
	var a *attempt
	if k.policy.Hedge > 0 && len(k.usable) > 1 {
		a = k.race()
	} else {
		a = k.newLane(false).run(-1)
	}
	if a != nil {
		k.deliver(a)
	}
	k.running.Wait()
	return k.finish()
}
