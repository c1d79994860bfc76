package limit

import (
	"context"
	"slices"
	"time"
)

const (
	// longestWait bounds the wait of a call for a ledger's answer. While an exchange
	// takes longer than that, no further call waits.
	longestWait = 200 * time.Millisecond

	// hurriedPause is the least time between two exchanges while calls wait.
	hurriedPause = 5 * time.Millisecond
)

// shortage is what a call lacks in one cell.
type shortage struct {
	cell   *cell
	amount int64
}

// answer returns a channel that is closed when a ledger has answered, where a call was
// refused only because this process has no lease that is large enough. What the call
// lacks is then asked for. It returns nil where the call has to be refused: an answer
// would not bring room, or is not to be expected soon. The locks are held.
func (r *Reservation) answer(want Amounts) <-chan struct{} {
	if r.Context == nil {
		return nil
	}
	var lacks []shortage
	for i := range r.parts {
		p := &r.parts[i]
		if p.account == nil {
			continue
		}
		for n := range p.limit.Ceilings {
			of := &p.limit.Ceilings[n]
			if of.Measure == InFlight {
				if int64(p.account.calls) > of.Most {
					return nil
				}
				continue
			}
			amount := want.Of(of.Measure)
			c := p.account.find(of)
			if amount == 0 || c == nil || c.room(of, amount) {
				continue
			}
			if !c.soon(p.book.fleet.Load(), of, amount) {
				return nil
			}
			lacks = append(lacks, shortage{c, amount})
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	for i := range lacks {
		lacks[i].cell.portion.ask(lacks[i].amount)
	}
	return lacks[0].cell.portion.answer
}

// waiting is the wait of a call for the answers of ledgers.
type waiting struct{ begun time.Time }

// until waits for an answer, and reports whether it came in time. The answers that a call
// waits for have longestWait together.
func (w *waiting) until(ctx context.Context, answer <-chan struct{}) bool {
	if w.begun.IsZero() {
		w.begun = time.Now()
	}
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

// passed returns how long the call has waited.
func (w *waiting) passed() time.Duration { return time.Since(w.begun) }

// soon reports whether the next answer of a ledger may bring room that a cell lacks.
func (c *cell) soon(f *fleet, of *Ceiling, amount int64) bool {
	p := c.portion
	return p != nil && f != nil && p.queued == f && amount <= of.Most-sum(c.total(), c.reserved) && f.prompt()
}

// ask has the next claim of a counter ask for what a call waits for.
func (p *portion) ask(amount int64) {
	p.awaited = sum(p.awaited, amount)
	if p.answer == nil {
		p.answer = make(chan struct{})
	}
	select {
	case p.queued.hurry <- struct{}{}:
	default:
	}
}

// wake has the calls that wait for an answer look again. Those that still lack room ask
// again.
func (p *portion) wake() {
	p.awaited = 0
	if p.answer != nil {
		close(p.answer)
		p.answer = nil
	}
}

// prompt reports whether the ledger is there and answers fast enough to wait for it.
func (f *fleet) prompt() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ctx.Err() == nil && f.since.IsZero() && (f.begun.IsZero() || time.Since(f.begun) < longestWait)
}

// wakeQueued wakes the calls that wait for what is queued or in doubt.
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

// pause waits between two exchanges: for less time while calls wait for the next one. It
// reports false where the fleet has ended.
func (f *fleet) pause(ctx context.Context) bool {
	return sleep(ctx, hurriedPause, nil) && sleep(ctx, exchangePause-hurriedPause, f.hurry)
}

// sleep waits for a time, or until it is hurried. It reports false where ctx has ended.
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
