package invoke

import (
	"context"
	"math/rand/v2"
	"time"

	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/trace"
)

// The budget of a call is call.left: the number of attempts over all targets
// and both lanes, including the repeats that a provider's HTTP client makes by
// itself. The record of an attempt is opened when the attempt is taken from the
// budget and closed at its end. call.mu guards both.

// The waits between two tries at one target.
const (
	baseWait = 250 * time.Millisecond
	// MaxWait is the longest wait. If a provider asks for a longer one, the next
	// target is tried at once.
	MaxWait = 8 * time.Second
)

// Attempt is one attempt of a call, as the call's trace records it. Its Error is
// without the words of the provider that may quote a prompt. It may hold secrets.
type Attempt struct {
	trace.Attempt
	// Target is the index in Call.Targets of the target that was tried.
	Target int
	// Usage is the attempt's usage, which trace.Attempt copies.
	Usage providers.Usage
	// Err is the reason of the failure, or nil.
	Err error
	// Span is what Call.StartSpan returned for it.
	Span oteltrace.Span
}

// take takes the first attempt at the target from the budget. It returns false
// if none is left.
func (a *attempt) take() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.left <= 0 {
		return false
	}
	a.usable[a.place].paid = false
	a.begin(0)
	return true
}

// begin takes an attempt from the budget and opens its record. The attempt
// begins after the wait.
func (a *attempt) begin(wait time.Duration) {
	a.left--
	a.tries++
	a.beganAt = time.Now().Add(wait)
	a.recording = true
	a.records = append(a.records, Attempt{Target: a.index, Attempt: trace.Attempt{
		Provider: a.target.Name, Model: a.target.Model,
		Started: a.beganAt.Sub(a.started), Wait: wait, Hedge: a.hedge,
	}})
	if a.StartSpan != nil {
		r := &a.records[len(a.records)-1]
		r.Span = a.StartSpan(a.index, r, a.beganAt)
	}
}

// again takes another attempt at the same target and returns the wait before it: a
// random part of a bound that doubles with each try, and no less than hint, the wait
// that the provider asked for. It returns false if the target must not be tried
// again: its retries, the attempts or its share of the time are used up, its health
// does not permit it, the wait is too long or does not fit into ctx's deadline, or
// the purse does not cover it.
func (a *attempt) again(ctx context.Context, hint time.Duration) (time.Duration, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	wait, ok := a.mayRepeat(ctx, hint)
	if ok {
		a.repeat(wait)
	}
	return wait, ok
}

// Repeat is again for the provider's HTTP client, which repeats a request that
// failed before an answer began. Repeat also records that failure. If it
// returns false the record stays open: the failure is then the attempt's.
func (a *attempt) Repeat(ctx context.Context, failure error) (time.Duration, bool) {
	wait, change, ok := a.repeatAfter(ctx, failure)
	a.tell(change)
	return wait, ok
}

func (a *attempt) repeatAfter(ctx context.Context, failure error) (wait time.Duration, change *Change, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if wait, ok = a.mayRepeat(ctx, 0); ok {
		f := failed{class: Connect, err: failure, brief: brief(failure)}
		a.closeRecord(f, used{})
		change = a.health.failed(time.Now(), f.class, 0, f.brief)
		a.repeat(wait)
	}
	return wait, change, ok
}

// Tries counts the tries at the target, the running one included.
func (a *attempt) Tries() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tries
}

func (a *attempt) mayRepeat(ctx context.Context, hint time.Duration) (time.Duration, bool) {
	last := a.later == 0
	if a.tries > a.policy.retries(last) || a.left <= a.reserve() || hint > MaxWait {
		return 0, false
	}
	wait := retryWait(a.tries-1, hint)
	ok := (a.share.IsZero() || time.Now().Add(wait).Before(a.share)) && a.fits(ctx, wait) && a.permitRetry(last) && (a.Purse == nil || a.Purse.Take(a.index))
	return wait, ok
}

// reserve is how many attempts a retry leaves: one for each target not tried
// yet. The other lane of a hedged call may have tried some since this target's
// first attempt.
func (a *attempt) reserve() int {
	if a.hedged() {
		return a.call.later(time.Now())
	}
	return a.later
}

// repeat begins another attempt at the target, with its full time or the remainder of
// the target's share: the clock runs on through the repeats of the HTTP client.
func (a *attempt) repeat(wait time.Duration) {
	a.begin(wait)
	if a.clock != nil && a.share.IsZero() {
		a.clock.extend(wait + a.limit)
	}
}

// used is the usage of an attempt.
type used struct {
	usage     providers.Usage
	estimated bool // because the provider did not count the tokens
}

// end closes the record of the attempt that runs, if one does.
func (l *lane) end(f failed, u used) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeRecord(f, u)
}

// closeRecord closes the open record, if there is one. An attempt that did not
// get past the wait before it goes back to the budget and the purse, and has no
// record.
func (l *lane) closeRecord(f failed, u used) {
	if !l.recording {
		return
	}
	l.recording = false
	took, last := time.Since(l.beganAt), len(l.records)-1
	if took < 0 {
		l.left++
		if l.Purse != nil {
			l.Purse.Return(l.records[last].Target)
		}
		l.records = l.records[:last]
		return
	}
	r := &l.records[last]
	r.Code, r.Status, r.Latency, r.Error, r.Err = string(f.class), f.status, took, f.brief, f.err
	r.Usage, r.Estimated = u.usage, u.estimated
	r.PromptTokens, r.CompletionTokens = u.usage.PromptTokens, u.usage.CompletionTokens
	r.UsageDetails = trace.UsageDetails{
		CachedTokens: r.Usage.CachedTokens, CacheWriteTokens: r.Usage.CacheWriteTokens, CacheWriteHourTokens: r.Usage.CacheWriteHourTokens,
		PromptAudioTokens: r.Usage.PromptAudioTokens, PromptImageTokens: r.Usage.PromptImageTokens,
		ReasoningTokens: r.Usage.ReasoningTokens, CompletionAudioTokens: r.Usage.CompletionAudioTokens, CompletionImageTokens: r.Usage.CompletionImageTokens,
		WebSearches: r.Usage.WebSearches, FileSearches: r.Usage.FileSearches, CodeExecutions: r.Usage.CodeExecutions, Tier: r.Usage.Tier,
	}
}

// hasContent records that the first content of the attempt that runs arrived.
func (l *lane) hasContent() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records[len(l.records)-1].FirstToken = time.Since(l.beganAt)
}

// retryWait returns the wait before retry n (the first is 0): full jitter under
// a bound that doubles from 250 ms to MaxWait
// (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/).
// If the provider asked for a wait, retryWait returns that and up to a tenth
// more, so that callers turned away together do not come back together.
//
// For example, the third retry (n = 2) comes after 0 to 1 s, or after 5 to 5.5
// s if the provider asked for 5 s.
func retryWait(n int, hint time.Duration) time.Duration {
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

// fits reports whether a wait leaves enough time for the attempt after it: a
// second, or half of the time left if that is less.
func (k *call) fits(ctx context.Context, wait time.Duration) bool {
	left := k.timeLeft(ctx)
	return ctx.Err() == nil && wait <= max(left-time.Second, left/2)
}

// timeLeft returns the time until the call's end or ctx's, whichever is earlier.
func (k *call) timeLeft(ctx context.Context) time.Duration {
	deadline := k.deadline
	if earlier, ok := ctx.Deadline(); ok && earlier.Before(deadline) {
		deadline = earlier
	}
	return time.Until(deadline)
}

// Text returns why the attempt failed, with all words of the provider: they may
// quote the prompt. It is empty if the attempt did not fail.
func (a *Attempt) Text() string {
	if a.Err == nil {
		return ""
	}
	return full(a.Err)
}
