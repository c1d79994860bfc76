package limit

import (
	"context"
	"slices"
	"time"
)

const (
	// longestWait bounds the wait of a call for a ledger's answer. If an exchange takes
	// longer, no further call waits for it.
	longestWait = 200 * time.Millisecond

	// hurriedPause is the minimum time between two exchanges while calls wait.
	hurriedPause = 5 * time.Millisecond
)

// request is the amount that a waiting call needs in one cell.
type request struct {
	account *account
	portion *portion
	amount  int64
}

// answer returns a channel that is closed when a ledger has answered, if a call was refused
// only because the lease of this process is too small. It then asks the ledger for the
// missing amounts, and keeps in wait what the call needs. It returns nil if the call must
// be refused: an answer would not help, or will not come soon.
func (r locked) answer(wait *waiting, want Amounts) (answer <-chan struct{}) {
	if r.Context == nil {
		return nil
	}
	needs, lacks := wait.needs[:0], 0
	for i := range r.parts {
		p := &r.parts[i]
		if p.account == nil {
			continue
		}
		for n := range p.limit.Ceilings {
			ceiling := &p.limit.Ceilings[n]
			if ceiling.Measure == InFlight {
				if int64(p.account.calls) > ceiling.Most {
					return nil
				}
				continue
			}
			amount := want.Of(ceiling.Measure)
			c := p.account.find(ceiling)
			if amount == 0 || c == nil || c.portion == nil {
				continue
			}
			need := request{p.account, c.portion, amount}
			switch {
			case c.allows(ceiling, amount):
				needs = append(needs, need)
			case !c.soon(p.book.fleet.Load(), ceiling, amount):
				return nil
			default:
				needs = append(needs, need)
				needs[lacks], needs[len(needs)-1] = needs[len(needs)-1], needs[lacks]
				lacks++
			}
		}
	}
	if lacks == 0 {
		return nil
	}
	for i := range needs {
		needs[i].portion.awaited = sum(needs[i].portion.awaited, needs[i].amount)
	}
	for i := range lacks {
		needs[i].portion.hurry()
	}
	wait.needs = needs
	return needs[0].portion.answer
}

// waiting is a call that waits for answers of ledgers.
type waiting struct {
	begun time.Time
	needs []request // counted in portion.awaited; first those that the call does not get
}

// until waits for an answer, and reports whether it came in time. A call waits for
// longestWait at most in all.
func (w *waiting) until(ctx context.Context, l *Limiter, answer <-chan struct{}) bool {
	if w.begun.IsZero() {
		w.begun = time.Now()
	}
	defer w.withdraw(l)
	timer := time.NewTimer(longestWait - w.passed())
	defer timer.Stop()
	select {
	case <-answer:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// withdraw ends what the call has asked for. A call that tries again asks again.
func (w *waiting) withdraw(l *Limiter) {
	for i := range w.needs {
		need := &w.needs[i]
		lock := &l.locks[need.account.shard]
		lock.Lock()
		need.portion.awaited -= need.amount
		lock.Unlock()
	}
	w.needs = w.needs[:0]
}

// passed returns how long the call has waited.
func (w *waiting) passed() time.Duration { return time.Since(w.begun) }

// soon reports whether the ledger may soon grant an amount that a cell lacks.
func (c *cell) soon(f *fleet, ceiling *Ceiling, amount int64) bool {
	p := c.portion
	return p != nil && f != nil && p.queued == f && amount <= ceiling.Most-sum(c.total(), c.reserved) && f.prompt()
}

// hurry makes the next exchange begin soon, since a call waits for its answer.
func (p *portion) hurry() {
	if p.answer == nil {
		p.answer = make(chan struct{})
	}
	select {
	case p.queued.hurry <- struct{}{}:
	default:
	}
}

// wake makes the calls that wait for an answer try again.
func (p *portion) wake() {
	if p.answer != nil {
		close(p.answer)
		p.answer = nil
	}
}

// prompt reports whether the ledger is available and answers fast enough to wait for it.
func (f *fleet) prompt() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ctx.Err() == nil && f.since.IsZero() && (f.begun.IsZero() || time.Since(f.begun) < longestWait)
}

// wakeQueued wakes the calls that wait for counters that are queued or in doubt.
func (f *fleet) wakeQueued() {
	f.mu.Lock()
	queue := f.queue
	f.mu.Unlock()
	if f.doubt != nil {
		queue = slices.Concat(f.doubt.entries, queue)
	}
	for i := range queue {
		lock := &f.limiter.locks[queue[i].account.shard]
		lock.Lock()
		if p := queue[i].cell.portion; p != nil {
			p.wake()
		}
		lock.Unlock()
	}
}

// pause waits between two exchanges, for less time if calls wait for the next one. It
// reports false if the fleet has ended.
func (f *fleet) pause(ctx context.Context) bool {
	return sleep(ctx, hurriedPause, nil) && sleep(ctx, exchangePause-hurriedPause, f.hurry)
}

// sleep waits for a time, or until hurry has a value. It reports false if ctx has ended.
func sleep(ctx context.Context, d time.Duration, hurry <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-hurry:
	case <-ctx.Done():
		return false
	}
	return true
}
