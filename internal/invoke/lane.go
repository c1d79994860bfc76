package invoke

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// lane tries the targets, one attempt at a time, until an answer can be handed on.
// A call has one lane, and a second one if it is hedged. The two share the targets
// and the budget of attempts.
type lane struct {
	*call
	ctx    context.Context
	cancel context.CancelCauseFunc // of a hedged call
	hedge  bool

	// Guarded by call.mu.
	records   []Attempt // of the attempts taken
	recording bool      // the last of them is open
	beganAt   time.Time // the last of them, after its wait

	// Memory for the first attempt.
	firstAttempt attempt
	firstRequest providers.Request
	firstRecord  [1]Attempt
}

// newLane adds a lane to the call. It returns nil when the call is settled.
func (k *call) newLane(hedge bool) *lane {
	l := &k.first
	if hedge {
		l = new(lane)
	}
	l.call, l.ctx, l.hedge, l.records = k, k.ctx, hedge, l.firstRecord[:0]
	if k.hedged() {
		l.ctx, l.cancel = context.WithCancelCause(l.ctx)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.settled != nil {
		return nil
	}
	if k.lanes == nil {
		k.lanes = k.firstLanes[:0]
	}
	k.lanes = append(k.lanes, l)
	return l
}

// run tries the target at place i, and the ones after it, until an answer can be
// handed on or the call is over. It returns nil when there is nothing to hand on, or i
// is -1.
func (l *lane) run(i int) *attempt {
	for ; i >= 0; i = l.next() {
		a, over := l.target(i)
		if a == nil {
			l.mu.Lock()
			l.leaveHost(&l.usable[i])
			l.mu.Unlock()
		}
		if over {
			return a
		}
	}
	return nil
}

// target tries one target until its answer can be handed on or it may not be tried
// again. It also reports whether the call is over.
func (l *lane) target(i int) (*attempt, bool) {
	u := &l.usable[i]
	t := &l.Targets[u.index]
	a, req := &l.firstAttempt, &l.firstRequest
	if a.lane != nil {
		a, req = new(attempt), new(providers.Request)
	}
	// Member by member: a literal would be made on the stack, which the connection
	// to the provider uses, too.
	a.lane, a.target, a.place, a.index, a.health = l, t, i, u.index, &u.health
	l.mu.Lock()
	a.later = l.later(time.Now())
	l.mu.Unlock()
	req.Model, req.Messages, req.Parameters, req.Extra = t.Model, l.Messages, t.Parameters, t.Extra
	req.Prepared, req.Stream = t.Prepared, l.Stream
	if c := t.Parameters.Caller; c != nil && (c.Search != nil || c.Searched != "") {
		a.lost = req.FitSearch(t.Provider)
	}
	// For a try without a verdict: the attempts are used up, the caller left, or
	// the provider panics.
	defer u.health.release()
	if !a.take() {
		return nil, true
	}
	u.health.begin(time.Now())
	for {
		began := time.Now()
		err := a.open(req)
		if err == nil {
			l.tell(u.health.answered(time.Now()))
			if l.settle() {
				return a, true
			}
			err = errSuperseded
		}
		f := a.failed(err)
		if f.class == Deadline && 2*time.Since(began) >= l.policy.Total {
			l.tell(u.health.hung(time.Now(), f.brief))
		}
		if f.class != Superseded && f.repeatable && l.policy.allowsStatus(f.status) && f.mayRepeat(a.later == 0) {
			if wait, again := a.again(l.ctx, f.hint); again {
				if err := sleep(l.ctx, wait); err == nil {
					continue
				}
				f = failed{place: i, err: l.cause(l.ctx, l.ctx.Err())}
				f.class, f.brief = Classify(f.err), brief(f.err)
				l.end(f, used{})
			}
		}
		if f.class == Superseded {
			return nil, true
		}
		l.addFailure(f)
		over := !f.class.row().Next
		if over {
			l.settle()
		}
		return nil, over
	}
}

// failed describes a failed attempt. A call keeps the last one of each target.
type failed struct {
	place      int // of the target in the order
	class      Class
	status     int // HTTP status, 0 if none was received
	hint       time.Duration
	repeatable bool // the provider does not advise against a retry
	err        error
	brief      string // its text without words that may quote a prompt
}

// lacks returns the part of a message, or the parameter, that the target does not take;
// "": the failure is another.
func (f *failed) lacks() string {
	if e, ok := errors.AsType[*providers.Error](f.err); ok {
		return e.Lacks
	}
	return ""
}

// overloaded reports whether the provider says that it has too much to do: by the status
// of Anthropic's API, or by a word, which may stand inside an answer.
func (f *failed) overloaded() bool {
	e, ok := errors.AsType[*providers.Error](f.err)
	return ok && (e.Status == wire.StatusOverloaded || matchesWord([]string{"overloaded_error", "overloaded", "server_is_overloaded"}, strings.ToLower(e.Code), strings.ToLower(e.Type)))
}

// mayRepeat reports whether the class of failure allows another try at the same
// target. If the target was slow, or limits the rate without saying for how long,
// only the last target is tried again.
func (f failed) mayRepeat(last bool) bool {
	switch f.class {
	case Slow:
		return last
	case RateLimit:
		return last || f.hint > 0
	}
	return f.class.row().Retry
}

// failed ends an attempt with a failure.
func (a *attempt) failed(err error) failed {
	f := failed{place: a.place, class: Classify(err), repeatable: true, err: err}
	if e, ok := errors.AsType[*providers.Error](err); ok {
		f.status, f.hint = e.Status, e.RetryAfter
		f.repeatable = e.Advice != providers.DoNotRetry
	} else if e, ok := errors.AsType[*providers.ConnectError](err); ok {
		f.repeatable = !e.Permanent
	}
	a.close()
	f.brief = a.explain(err, f.class)
	a.end(f, a.used(f.class))
	a.reportToHost(f.class)
	a.tell(a.health.failed(time.Now(), f.class, f.hint, f.brief))
	return f
}

// succeeded ends an attempt whose answer was handed on completely. If the provider
// counted no tokens the answer has the estimate.
func (a *attempt) succeeded(k *call) {
	a.close()
	u := a.used("")
	if u.estimated {
		a.result.Usage, k.result.Estimated = u.usage, true
	}
	a.end(failed{status: http.StatusOK}, u)
	a.reportToHost("")
}

// sleep waits for d, or until ctx ends, and then returns ctx's error.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		// The race detector may crash if goroutines of one synctest bubble read
		// from timers that are due already (https://go.dev/issue/78156).
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
