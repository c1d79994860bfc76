package invoke

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// The bounds of Error.RetryAfter, for a provider that sends no wait or too long
// a one.
const (
	minRetryAfter = time.Second
	maxRetryAfter = 10 * time.Minute
)

// failure returns the caller's error for a call that no target answered.
func (k *call) failure() *Error {
	e := &Error{Committed: k.committed, Attempts: len(k.result.Attempts)}
	if len(k.failures) == 0 && k.broken == nil {
		e.Class, e.Code, e.Err = k.nothingTried()
		if e.Code == wire.UpstreamUnavailable || e.Code == wire.Overloaded || e.Code == wire.RateLimited {
			e.RetryAfter = minRetryAfter
		}
		e.Final = e.Code == wire.UpstreamCredentials && k.final()
		return e
	}
	// Two lanes may fail in any order.
	slices.SortStableFunc(k.failures, func(a, b failed) int { return a.place - b.place })
	decisive := k.decisive()
	e.Class = decisive.class
	e.Code = decisive.class.row().Code
	if e.Lacks = decisive.lacks(); e.Lacks != "" && len(k.result.Skipped) > 0 {
		// A target that was skipped may take the part.
		e.Lacks = ""
		e.Class, e.Code, _ = k.nothingTried()
	}
	if e.Code == wire.UpstreamRejected {
		e.Member, e.Tool = k.blames(decisive)
	}
	details := make([]error, 0, len(k.failures)+1)
	for _, f := range k.failures {
		details = append(details, k.named(f))
	}
	if k.broken != nil {
		details = append(details, k.named(*k.broken))
	}
	e.Err = errors.Join(details...)
	if k.committed {
		e.Code = wire.UpstreamInterrupted
		return e
	}
	switch e.Code {
	case wire.UpstreamRateLimited, wire.UpstreamUnavailable, wire.Overloaded, wire.RateLimited:
		e.RetryAfter = k.retryAfter()
	case wire.UpstreamError:
		e.Final = k.final()
		if e.Overloaded = decisive.overloaded(); e.Overloaded {
			e.RetryAfter = min(max(decisive.hint, minRetryAfter), maxRetryAfter)
		}
	case wire.UpstreamRefused:
		e.Final = true // whatever the other targets are good for, they aren't asked
	case wire.ContextLengthExceeded:
		e.Tokens, e.Window = k.tooLong()
		e.Final = k.final()
	case wire.UpstreamRejected, wire.UpstreamCredentials, wire.UpstreamInvalidResponse:
		e.Final = k.final()
	}
	return e
}

// final reports whether another call would end as this one did: none of its targets
// has failed, or was skipped, for a reason that may pass.
func (k *call) final() bool {
	passes := func(f failed) bool { return !f.class.row().Final && f.repeatable }
	return !slices.ContainsFunc(k.failures, passes) && (k.broken == nil || !passes(*k.broken)) &&
		!slices.ContainsFunc(k.result.Skipped, func(s Skip) bool { return s.passes() })
}

// named returns the failure with its target's name.
func (k *call) named(f failed) error {
	return &targetError{k.Targets[k.usable[f.place].index].String(), f.brief, f.err}
}

// nothingTried explains a call without a single target to try.
func (k *call) nothingTried() (Class, wire.Code, error) {
	if len(k.Targets) == 0 {
		return Unknown, wire.Internal, errors.New("the call has no targets")
	}
	class, code, full, spent := Connect, wire.UpstreamUnavailable, false, false
	details := make([]error, 0, len(k.result.Skipped))
	for _, s := range k.result.Skipped {
		switch {
		case errors.Is(s.Reason, ErrHostFull):
			full = true
		case errors.Is(s.Reason, ErrBudget):
			spent = true
		case errors.Is(s.Reason, errUnavailable):
			class, code = Credential, wire.UpstreamCredentials
		}
		details = append(details, fmt.Errorf("%s: %w", &k.Targets[s.Target], s.Reason))
	}
	switch {
	case full:
		// A full host has a place again soon. A missing key stays missing.
		class, code = Unknown, wire.Overloaded
	case spent:
		class, code = Unknown, wire.RateLimited
	}
	return class, code, errors.Join(details...)
}

// decisive picks the failure that decides the caller's error: the failure that broke
// the answer or ended the call itself, else the failure of the first target that was
// asked. If that only means that the request does not suit this target, and another
// target asks to come back later, the other one decides. A target that lacks a part
// of the messages or a parameter is not asked, and decides only if all of them lack one.
func (k *call) decisive() failed {
	if k.broken != nil {
		return *k.broken
	}
	for _, f := range k.failures {
		if f.class == ClientGone || f.class == Deadline {
			return f
		}
	}
	first := k.failures[0]
	if i := slices.IndexFunc(k.failures, func(f failed) bool { return f.lacks() == "" }); i > 0 {
		first = k.failures[i]
	}
	switch first.class {
	case Rejected, Model, ContextLength, Length, Unknown:
		for _, f := range k.failures {
			switch f.class {
			case Slow, RateLimit, NoRoom:
				return f
			}
		}
	}
	return first
}

// retryAfter returns how soon the first of the usable targets may answer again,
// within minRetryAfter and maxRetryAfter.
func (k *call) retryAfter() time.Duration {
	now := time.Now()
	soonest := maxRetryAfter
	for _, u := range k.usable {
		soonest = min(soonest, u.health.opens(now).Sub(now))
	}
	for _, f := range k.failures {
		if f.hint > 0 {
			soonest = min(soonest, f.hint)
		}
	}
	return max(soonest, minRetryAfter)
}
