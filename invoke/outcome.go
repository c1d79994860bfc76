package invoke

import (
	"errors"
	"fmt"
	"time"
)

// The bounds of Error.RetryAfter where a provider names none, or too much.
const (
	minRetryAfter = time.Second
	maxRetryAfter = 10 * time.Minute
)

// failure makes the caller's error of a call that no target answered.
func (k *call) failure() *Error {
	e := &Error{Committed: k.committed, Attempts: len(k.result.Attempts)}
	if len(k.failures) == 0 {
		e.Class, e.Code, e.Err = k.nothingTried()
		if e.Code == CodeUnavailable {
			e.RetryAfter = minRetryAfter
		}
		return e
	}
	decisive := k.decisive()
	e.Class = decisive.class
	e.Code = decisive.class.row().Code
	details := make([]error, len(k.failures))
	for i, f := range k.failures {
		details[i] = f.err
	}
	e.Err = errors.Join(details...)
	if k.committed {
		e.Code = CodeInterrupted
		return e
	}
	if e.Code == CodeRateLimited || e.Code == CodeUnavailable {
		e.RetryAfter = k.retryAfter()
	}
	return e
}

// nothingTried explains a call without a single target to try.
func (k *call) nothingTried() (Class, string, error) {
	if len(k.Targets) == 0 {
		return Unknown, CodeInternal, errors.New("the call has no targets")
	}
	class, code := Connect, CodeUnavailable
	details := make([]error, 0, len(k.result.Skipped))
	for _, s := range k.result.Skipped {
		if errors.Is(s.Reason, errUnavailable) {
			class, code = Credential, CodeCredentials
		}
		details = append(details, fmt.Errorf("%s: %w", k.Targets[s.Target].Name, s.Reason))
	}
	return class, code, errors.Join(details...)
}

// decisive picks the failure that callers are told of: the end of the call
// itself, else the first target's, unless that only says that the request does
// not suit it and another target says to come back later.
func (k *call) decisive() failed {
	last := k.failures[len(k.failures)-1]
	if last.class == ClientGone || last.class == Deadline || k.committed {
		return last
	}
	first := k.failures[0]
	switch first.class {
	case Rejected, Model, ContextLength, Unknown:
		for _, f := range k.failures[1:] {
			switch f.class {
			case Slow, RateLimit:
				return f
			}
		}
	}
	return first
}

// retryAfter is when the first of the tried targets may answer again.
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
