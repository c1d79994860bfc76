package invoke

import (
	"cmp"
	"slices"
	"time"
)

// TargetState is how a target does.
type TargetState string

// The states of a target.
const (
	// TargetOK is a target whose last attempt was answered, or that has had none.
	TargetOK TargetState = "ok"
	// TargetFailing is a target whose last attempt failed. It is tried all the
	// same.
	TargetFailing TargetState = "failing"
	// TargetCooling is a target that is left alone because the provider limits the
	// rate, or does not accept the key, the account or the model.
	TargetCooling TargetState = "cooling"
	// TargetEjected is a target that the breaker leaves alone. One call at a time
	// tries it.
	TargetEjected TargetState = "ejected"
)

// TargetHealth is the health of a target as an engine sees it.
type TargetHealth struct {
	Provider, Model string
	State           TargetState
	// Down reports that the target is left alone, or was and has not answered
	// since, or that downAfter attempts in a row failed: few calls never eject a
	// target. A single rate limit whose time is over does not count.
	Down bool
	// Since is when a target that is or was Down was left alone; else the time of
	// the first of its Failures. It is zero for TargetOK.
	Since time.Time
	// Until is the end of the time for which the target is left alone; zero if it
	// is not.
	Until time.Time
	// Failures counts the failed attempts since the last answer.
	Failures int
	// Why is the failure for which the target is left alone, and Last the latest
	// failure. A Failure without a class means none.
	Why, Last Failure
}

// LeftAlone reports whether calls pass the target over.
func (t *TargetHealth) LeftAlone() bool { return t.State == TargetCooling || t.State == TargetEjected }

// Failure is a failure of a target.
type Failure struct {
	Class Class
	// Text explains it without the provider's words, which may quote prompts.
	Text string
	Time time.Time
}

// LeftAlone is the reason to skip a target that is left alone.
type LeftAlone struct {
	State TargetState // TargetCooling or TargetEjected
	Until time.Time
	Why   Failure
}

// Error says until when, and for which failure.
func (e *LeftAlone) Error() string {
	text := "left alone until " + e.Until.UTC().Format(time.RFC3339)
	if e.State == TargetEjected {
		text += " after too many failures"
	}
	return text + ": " + string(e.Why.Class) + ": " + e.Why.Text
}

// leftAlone returns why a call is not let in.
func (h *health) leftAlone(now time.Time) *LeftAlone {
	t := h.show(now)
	return &LeftAlone{t.State, t.Until, t.Why}
}

// Targets returns the health of the targets that the engine has called, by
// provider and model.
func (e *Engine) Targets() []TargetHealth {
	now := time.Now()
	all := e.health.all()
	targets := make([]TargetHealth, len(all))
	for i, h := range all {
		targets[i] = h.show(now)
	}
	slices.SortFunc(targets, func(a, b TargetHealth) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model))
	})
	return targets
}

// ChangeKind is a kind of change of a target's health.
type ChangeKind uint8

// The kinds of changes.
const (
	ChangeFailed    ChangeKind = iota + 1 // the first failure after an answer
	ChangeLeftAlone                       // the target is left alone from now on
	ChangeAnswers                         // a target that was left alone, or down, answers again
)

// Change is a change of a target's health.
type Change struct {
	Kind ChangeKind
	// TargetHealth is the health after the change; after ChangeAnswers it is that
	// before.
	TargetHealth
	// New reports that the change is now. It is false for one that happened
	// before, when no line was due.
	New bool
	// Log reports whether a line is due. A target gets one line of each kind in
	// logEvery; the line of ChangeAnswers is due only after one of the others.
	Log bool
	// Unlogged counts the changes of this kind that got no line since the last one.
	Unlogged int
}

// logEvery is the least time between two lines of a kind about a target.
const logEvery = time.Minute

// downAfter is how many failures in a row make a target Down that is tried all the
// same.
const downAfter = 5

// record holds a target's failures. health.mu guards it.
type record struct {
	failures int       // since the last answer
	since    time.Time // of the first of these
	down     time.Time // when the target was left alone; zero once it has answered
	why      Failure
	last     Failure

	failed, leftAlone line
}

// line says when lines of a kind are due.
type line struct {
	at       time.Time // of the last one
	said     bool      // of the present failures, or of this time of being left alone
	unlogged int
	class    Class // that it gave as the reason
}

// due reports whether a line is due, and counts the change if not.
func (l *line) due(now time.Time, class Class, fresh bool) (due bool, unlogged int) {
	if !l.at.IsZero() && now.Sub(l.at) < logEvery {
		if fresh {
			l.unlogged++
		}
		return false, 0
	}
	unlogged = l.unlogged
	*l = line{at: now, said: true, class: class}
	return true, unlogged
}

// show returns the target's health.
func (h *health) show(now time.Time) TargetHealth {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.shown(now)
}

// shown holds h.mu.
func (h *health) shown(now time.Time) TargetHealth {
	t := TargetHealth{
		Provider: h.provider, Model: h.model, State: TargetOK, Failures: h.record.failures, Since: h.record.since, Last: h.record.last,
	}
	switch {
	case !h.until.IsZero():
		t.State, t.Until = TargetEjected, h.until
		if h.cool.After(t.Until) {
			t.Until = h.cool
		}
	case now.Before(h.cool):
		t.State, t.Until = TargetCooling, h.cool
	case h.record.failures > 0:
		t.State = TargetFailing
	}
	t.Down = h.record.failures >= downAfter
	if !h.record.down.IsZero() {
		t.Down = t.Down || t.LeftAlone() || h.record.last.Class != RateLimit
		t.Since, t.Why = h.record.down, h.record.why
	}
	return t
}

// noteAnswer records an answer. It returns a change if the target was left alone, or
// had failed downAfter times in a row. It holds h.mu, as noteFailure does.
func (h *health) noteAnswer(now time.Time) *Change {
	r := &h.record
	if r.failures == 0 && r.down.IsZero() {
		return nil
	}
	var c *Change
	many := r.failures >= downAfter
	if many || !r.down.IsZero() {
		c = &Change{Kind: ChangeAnswers, TargetHealth: h.shown(now), New: true, Log: r.leftAlone.said || many && r.failed.said}
	}
	r.failures, r.since, r.down, r.why = 0, time.Time{}, time.Time{}, Failure{}
	r.failed.said, r.leftAlone.said = false, false
	return c
}

// hung records that the target alone had half of a call's time or more, and did not
// answer within it: else a hanging target would look healthy if no other follows, or
// if the call is too short for two. The breaker does not count it, because the
// endpoint sets a call's time, not the target.
func (h *health) hung(now time.Time, text string) *Change {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.noteFailure(Failure{Slow, text, now}, !h.until.IsZero(), now.Before(h.cool))
}

// noteFailure records a failure of a target that was ejected or cooling before,
// or not.
func (h *health) noteFailure(f Failure, ejected, cooling bool) *Change {
	row, r, now := f.Class.row(), &h.record, f.Time
	against := row.Counts || row.Cools
	if !against && (!row.Next || f.Class == NoRoom) {
		return nil // says nothing about the target
	}
	r.last = f
	left := !h.until.IsZero() || now.Before(h.cool)
	if !against && !left {
		// The target answers, though with an error.
		if c := h.noteAnswer(now); c != nil {
			r.failures, r.since, r.failed.said = 1, now, true
			return c
		}
	}
	if r.failures++; r.failures == 1 {
		r.since = now
	}
	if left {
		fresh := !ejected && !h.until.IsZero() || !cooling && now.Before(h.cool)
		if r.down.IsZero() {
			r.down = now
		}
		if fresh {
			r.why = f
		}
		c := &Change{Kind: ChangeLeftAlone, New: fresh}
		if !r.leftAlone.said || r.leftAlone.class != r.why.Class {
			c.Log, c.Unlogged = r.leftAlone.due(now, r.why.Class, fresh)
		}
		if !c.New && !c.Log {
			return nil
		}
		if c.Log {
			r.failed.said = true // the line says it
		}
		c.TargetHealth = h.shown(now)
		return c
	}
	if r.failed.said {
		return nil
	}
	due, unlogged := r.failed.due(now, f.Class, r.failures == 1)
	if !due {
		return nil
	}
	return &Change{Kind: ChangeFailed, TargetHealth: h.shown(now), New: r.failures == 1, Log: true, Unlogged: unlogged}
}
