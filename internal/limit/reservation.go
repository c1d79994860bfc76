package limit

import (
	"context"
	"time"
)

// Reservation is the amounts set aside for one call. It must be settled once. Its methods
// may be called concurrently. After Settle they do nothing. The methods of a nil
// Reservation, of a call without limits, do nothing either.
type Reservation struct {
	// Context, if set, makes a call wait for the answer of the ledger of a shared limit,
	// instead of being refused at once, until the context ends. A call waits for 200 ms
	// at most, and only if the ceiling is known to allow more than the limiter's lease.
	// It must not be changed once the reservation is in use.
	Context context.Context

	limiter *Limiter
	set     uint64 // of the shards whose locks protect the following fields
	open    bool
	taken   Amounts
	parts   []part
	holds   []hold

	// These arrays suffice for most calls.
	fewParts [3]part
	fewHolds [5]hold
}

// part is the account of one ask.
type part struct {
	book    *book
	limit   *Limit
	subject string
	account *account // nil: an earlier part has the same one
	shard   uint8
}

// hold is the amount set aside in one cell.
type hold struct {
	cell    *cell
	ceiling *Ceiling
	part    int
	turn    uint32 // of the cell
	before  int64  // the amount set aside in earlier windows
}

// begin looks up the books and the locks of the parts. It returns without a lock held.
func (r *Reservation) begin(l *Limiter, workspace string, asks []Ask) {
	r.limiter, r.open, r.taken = l, false, Amounts{}
	r.parts, r.holds = r.fewParts[:0], r.fewHolds[:0]
	for i := range asks {
		b := l.book(workspace, asks[i].Limit.Name, true)
		subject := l.counted(b, asks[i].Subject)
		r.parts = append(r.parts, part{book: b, limit: asks[i].Limit, subject: subject, shard: l.shard(b, subject)})
	}
	r.noteLocks()
}

// noteLocks stores the set of locks of the parts.
func (r *Reservation) noteLocks() {
	r.set = 0
	for i := range r.parts {
		r.set |= 1 << r.parts[i].shard
	}
}

// locked is a reservation whose locks are held until release. Only its methods use
// accounts and cells.
type locked struct{ *Reservation }

// lock takes the locks of the parts.
func (r *Reservation) lock() locked {
	r.limiter.acquire(r.set)
	return locked{r}
}

func (r locked) release() { r.limiter.release(r.set) }

// enter takes the locks, finds the accounts and counts the call as in flight in each.
func (r *Reservation) enter(now int64) locked {
	for {
		held := r.lock()
		if held.find(now) {
			return held
		}
		held.release()
		r.noteLocks()
	}
}

// find finds the accounts, and counts the call as in flight in each. It reports false if
// a subject can have no account and counts under Others, whose lock is another one.
func (r locked) find(now int64) bool {
	l := r.limiter
	for i := range r.parts {
		p := &r.parts[i]
		p.account = l.account(p.book, p.shard, p.subject, now)
		if p.account == nil {
			p.subject = Others
			p.shard = l.shard(p.book, Others)
			l.shared.Add(1)
			r.leave()
			return false
		}
		for j := range i {
			if r.parts[j].account == p.account {
				p.account = nil
				break
			}
		}
		if p.account != nil {
			p.account.calls++ // so the next call of l.account does not drop it
		}
	}
	return true
}

// leave ends the call in the accounts' counts of calls in flight.
func (r locked) leave() {
	for i := range r.parts {
		if a := r.parts[i].account; a != nil {
			a.calls--
		}
	}
}

// check stores the cells in r.holds, and returns a refusal unless want fits in each.
func (r locked) check(now int64, asks []Ask, want Amounts) (worst *Refusal, tell []crossing) {
	l := r.limiter
	r.holds = r.holds[:0]
	for i := range r.parts {
		p := &r.parts[i]
		if p.account == nil {
			continue
		}
		for n := range p.limit.Ceilings {
			ceiling := &p.limit.Ceilings[n]
			var after time.Duration
			var never bool
			if ceiling.Measure == InFlight {
				if int64(p.account.calls) <= ceiling.Most {
					continue
				}
				never = ceiling.Most <= 0
			} else {
				c := l.cell(p.account, ceiling, now)
				if !r.holding(c) {
					r.holds = append(r.holds, hold{cell: c, ceiling: ceiling, part: i, turn: c.turn})
				}
				amount := want.Of(ceiling.Measure)
				if amount == 0 || c.fits(p.account, ceiling, amount) {
					continue
				}
				if never = amount > ceiling.Most; !never && sum(c.total(), amount) > ceiling.Most {
					_, end := c.window.span(c.start)
					after = time.Duration(end - now)
					tell = r.crosses(tell, p, c, ceiling, 100)
				}
			}
			if worst == nil || never && !worst.Never || never == worst.Never && after > worst.RetryAfter {
				worst = &Refusal{Ask: asks[i], Ceiling: *ceiling, RetryAfter: after, Never: never}
			}
		}
	}
	return worst, tell
}

// holding reports whether r.holds has a cell, of another ceiling with the same window.
func (r *Reservation) holding(c *cell) bool {
	for i := range r.holds {
		if r.holds[i].cell == c {
			return true
		}
	}
	return false
}

// take sets aside the amounts that check has found to fit.
func (r locked) take(want Amounts) {
	for i := range r.holds {
		h := &r.holds[i]
		h.cell.reserved = sum(h.cell.reserved, want.Of(h.ceiling.Measure))
		r.parts[h.part].account.watch(h.cell)
	}
	r.taken, r.open = Amounts{}.Plus(want), true
}

// More sets more aside, for a further attempt, and reports whether it fits. The amount
// counts in the window of the time now.
func (r *Reservation) More(now time.Time, more Amounts) bool {
	if r == nil || r.set == 0 {
		return true
	}
	var wait waiting
	for at := now; ; at = now.Add(wait.passed()) {
		var answer <-chan struct{}
		held := r.lock()
		fits := held.more(at.UnixNano(), more)
		if !fits && r.open {
			answer = held.answer(&wait, more)
		}
		held.release()
		if answer == nil || !wait.until(r.Context, r.limiter, answer) {
			if fits {
				r.wait()
			}
			return fits
		}
	}
}

// more is one try of More.
func (r locked) more(at int64, more Amounts) bool {
	l := r.limiter
	if !r.open {
		return false
	}
	fits := true // the loop does not stop at false: it begins all windows
	for i := range r.parts {
		p := &r.parts[i]
		if p.account == nil {
			continue
		}
		for n := range p.limit.Ceilings {
			ceiling := &p.limit.Ceilings[n]
			amount := more.Of(ceiling.Measure)
			if amount > 0 && !l.cell(p.account, ceiling, at).fits(p.account, ceiling, amount) {
				fits = false
			}
		}
	}
	if !fits {
		return false
	}
	for i := range r.holds {
		h := &r.holds[i]
		amount := more.Of(h.ceiling.Measure)
		if amount == 0 {
			continue
		}
		if c := l.cell(r.parts[h.part].account, h.ceiling, at); c != h.cell || c.turn != h.turn {
			h.cell, h.turn, h.before = c, c.turn, r.taken.Of(h.ceiling.Measure)
		}
		h.cell.reserved = sum(h.cell.reserved, amount)
		r.parts[h.part].account.watch(h.cell)
	}
	r.taken = r.taken.Plus(more)
	r.write(at)
	return true
}

// write appends the accounts to the file. Ceilings of calls in flight need no file, because
// such calls end with the process.
func (r locked) write(now int64) {
	if len(r.holds) > 0 {
		r.limiter.file.change(r.parts, now)
	}
}

// wait waits until the operating system has the changes of write.
func (r *Reservation) wait() {
	if len(r.holds) > 0 {
		r.limiter.file.wait()
	}
}

// Return gives back a part of the amounts set aside, for an attempt that was not made.
func (r *Reservation) Return(back Amounts) {
	if r == nil || r.set == 0 {
		return
	}
	held := r.lock()
	defer held.release()
	if !r.open {
		return
	}
	left := r.taken.Less(back)
	for i := range r.holds {
		if h := &r.holds[i]; h.cell.turn == h.turn {
			had := r.taken.Of(h.ceiling.Measure)
			keeps := left.Of(h.ceiling.Measure)
			h.cell.reserved -= max(had-h.before, 0) - max(keeps-h.before, 0)
		}
	}
	r.taken = left
}

// Settle ends the call: it replaces the amounts set aside with the amounts used, in the
// windows in which they were set aside. Use beyond the amounts set aside counts in full.
func (r *Reservation) Settle(now time.Time, used Amounts) {
	if r == nil || r.set == 0 {
		return
	}
	l, at := r.limiter, now.UnixNano()
	held := r.lock()
	if !r.open {
		held.release()
		return
	}
	r.open = false
	var tell []crossing
	beyond := false // the use is more than the file has as set aside
	for i := range r.holds {
		h := &r.holds[i]
		c := h.cell
		if c.turn != h.turn {
			continue // its window has ended
		}
		m := h.ceiling.Measure
		amount, reserved := used.Of(m), max(r.taken.Of(m)-h.before, 0)
		// If the call set amounts aside in several windows, the use in each is unknown.
		// It counts as the amount set aside there, as far as the total allows.
		amount = max(amount-h.before, min(amount, reserved))
		c.reserved -= reserved
		c.used = sum(c.used, amount)
		r.parts[h.part].account.watch(c)
		beyond = beyond || amount > reserved
		if amount > reserved && c.used > h.ceiling.Most {
			l.exceeded.Add(1)
		}
		share := percent(c.total(), h.ceiling.Most)
		if share < 80 {
			continue
		}
		if _, end := c.window.span(c.start); at < end {
			tell = held.crosses(tell, &r.parts[h.part], c, h.ceiling, 80)
			if share >= 100 {
				tell = held.crosses(tell, &r.parts[h.part], c, h.ceiling, 100)
			}
		}
	}
	held.leave()
	held.write(at)
	written := len(r.holds) > 0
	clear(r.parts)
	clear(r.holds)
	held.release()
	switch {
	case beyond:
		l.file.flush()
	case written:
		l.file.soon()
	}
	l.tell(tell)
}

// Refused reports a call that was refused after More returned false: it calls Crossed with
// the ceiling, once in its window, if its used amount leaves too little. More itself does
// not call Crossed, because a call may continue with less.
func (l *Limiter) Refused(workspace string, now time.Time, refusal *Refusal) {
	if refusal.Never || refusal.RetryAfter <= 0 {
		return
	}
	var r Reservation
	r.begin(l, workspace, []Ask{refusal.Ask})
	held := r.enter(now.UnixNano())
	p := &r.parts[0]
	tell := held.crosses(nil, p, l.cell(p.account, &refusal.Ceiling, now.UnixNano()), &refusal.Ceiling, 100)
	held.leave()
	held.release()
	l.tell(tell)
}

// crossing has the arguments of a call of Options.Crossed that is due.
type crossing struct {
	workspace string
	standing  Standing
	percent   int
}

// crosses appends a call of Options.Crossed for a cell that has reached a level, 80 or
// 100 percent, for the first time in its window.
func (r locked) crosses(tell []crossing, p *part, c *cell, ceiling *Ceiling, level int) []crossing {
	bit := uint8(1)
	if level == 100 {
		bit = 2
	}
	if c.levels&bit != 0 {
		return tell
	}
	c.levels |= bit
	if r.limiter.crossed == nil {
		return tell
	}
	return append(tell, crossing{p.book.workspace, r.limiter.standing(p.account, p.limit, ceiling, c, c.start), level})
}

func (l *Limiter) tell(all []crossing) {
	for i := range all {
		l.crossed(all[i].workspace, all[i].standing, all[i].percent)
	}
}
