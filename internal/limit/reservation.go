package limit

import (
	"context"
	"time"
)

// Reservation is what is set aside for one call. It must be settled once. Its methods
// may be called concurrently. After Settle they do nothing, and so do those of nil,
// which no limit applies to.
type Reservation struct {
	// Context, where set, has a call wait until the ledger of a shared limit has
	// answered, in place of being refused, as long as it has not ended. A call waits
	// for 200 ms at most, and only where the limiter knows of room that it has no lease
	// of. It is not to be changed once the reservation is in use.
	Context context.Context

	limiter *Limiter
	set     uint64 // of the shards whose locks are held for what follows
	open    bool
	taken   Amounts
	parts   []part
	holds   []hold

	// Most calls need no more than these.
	fewParts [3]part
	fewHolds [5]hold
}

// part is the account of one ask.
type part struct {
	book    *book
	limit   *Limit
	subject string
	account *account // nil for that of an earlier part
	shard   uint8
}

// hold is what is set aside in one cell.
type hold struct {
	cell    *cell
	ceiling *Ceiling
	part    int
	turn    uint32 // of the cell
	before  int64  // set aside in windows before that
}

// begin looks the limits up, without a lock.
func (r *Reservation) begin(l *Limiter, workspace string, asks []Ask) {
	r.limiter, r.open, r.taken = l, false, Amounts{}
	r.parts, r.holds = r.fewParts[:0], r.fewHolds[:0]
	for i := range asks {
		b := l.book(workspace, asks[i].Limit.Name, true)
		subject := l.counted(b, asks[i].Subject)
		r.parts = append(r.parts, part{book: b, limit: asks[i].Limit, subject: subject, shard: l.shard(b, subject)})
	}
	r.lock()
}

// lock notes the locks of the parts.
func (r *Reservation) lock() {
	r.set = 0
	for i := range r.parts {
		r.set |= 1 << r.parts[i].shard
	}
}

// enter takes the locks, finds the accounts and counts the call as in flight in each.
func (r *Reservation) enter(now int64) {
	for r.limiter.acquire(r.set); !r.find(now); r.limiter.acquire(r.set) {
		// A subject without room of its own counts with the others, whose lock is
		// another one.
		r.limiter.release(r.set)
		r.lock()
	}
}

// find finds the accounts, and counts the call as in flight in each. It reports false
// where a subject has no room and counts with the others, whose lock is another one.
// The locks are held.
func (r *Reservation) find(now int64) bool {
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
			p.account.calls++ // and so it is not dropped for the next one
		}
	}
	return true
}

// leave takes the call out of the accounts. The locks are held.
func (r *Reservation) leave() {
	for i := range r.parts {
		if a := r.parts[i].account; a != nil {
			a.calls--
		}
	}
}

// check notes the cells and looks whether each has room. The locks are held.
func (r *Reservation) check(now int64, asks []Ask, want Amounts) (worst *Refusal, tell []crossing) {
	l := r.limiter
	r.holds = r.holds[:0]
	for i := range r.parts {
		p := &r.parts[i]
		if p.account == nil {
			continue
		}
		for n := range p.limit.Ceilings {
			of := &p.limit.Ceilings[n]
			var after time.Duration
			var never bool
			if of.Measure == InFlight {
				if int64(p.account.calls) <= of.Most {
					continue
				}
				never = of.Most <= 0
			} else {
				c := l.cell(p.account, of, now)
				if !r.holding(c) {
					r.holds = append(r.holds, hold{cell: c, ceiling: of, part: i, turn: c.turn})
				}
				amount := want.Of(of.Measure)
				if amount == 0 || c.fits(p.account, of, amount) {
					continue
				}
				if never = amount > of.Most; !never && sum(c.total(), amount) > of.Most {
					_, end := l.span(c.window, c.start)
					after = time.Duration(end - now)
					tell = r.crosses(tell, p, c, of, 100)
				}
			}
			if worst == nil || never && !worst.Never || never == worst.Never && after > worst.RetryAfter {
				worst = &Refusal{Ask: asks[i], Ceiling: *of, RetryAfter: after, Never: never}
			}
		}
	}
	return worst, tell
}

// holding reports whether there is a hold in a cell, of a ceiling for the same.
func (r *Reservation) holding(c *cell) bool {
	for i := range r.holds {
		if r.holds[i].cell == c {
			return true
		}
	}
	return false
}

// take sets aside what check has found room for. The locks are held.
func (r *Reservation) take(want Amounts) {
	for i := range r.holds {
		h := &r.holds[i]
		h.cell.reserved = sum(h.cell.reserved, want.Of(h.ceiling.Measure))
		r.parts[h.part].account.watch(h.cell)
	}
	r.taken, r.open = Amounts{}.plus(want), true
}

// More sets more aside, for a further attempt, and reports whether there is room for
// it. What an attempt needs counts in the window in which it is asked for.
func (r *Reservation) More(now time.Time, more Amounts) bool {
	if r == nil || r.set == 0 {
		return true
	}
	l := r.limiter
	var wait waiting
	for at := now; ; at = now.Add(wait.passed()) {
		var answer <-chan struct{}
		l.acquire(r.set)
		fits, written := r.more(at.UnixNano(), more)
		if !fits && r.open {
			answer = r.answer(more)
		}
		l.release(r.set)
		if answer == nil || !wait.until(r.Context, answer) {
			l.file.wait(written)
			return fits
		}
	}
}

// more is More with the locks held.
func (r *Reservation) more(at int64, more Amounts) (bool, *wait) {
	l := r.limiter
	if !r.open {
		return false, nil
	}
	fits := true // all windows begin, whether it does or not
	for i := range r.parts {
		p := &r.parts[i]
		if p.account == nil {
			continue
		}
		for n := range p.limit.Ceilings {
			of := &p.limit.Ceilings[n]
			amount := more.Of(of.Measure)
			if amount > 0 && !l.cell(p.account, of, at).fits(p.account, of, amount) {
				fits = false
			}
		}
	}
	if !fits {
		return false, nil
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
	r.taken = r.taken.plus(more)
	return true, r.write(at, true)
}

// write writes what the accounts have. The locks are held.
func (r *Reservation) write(now int64, waits bool) *wait {
	if len(r.holds) == 0 {
		return nil // calls in flight end with the process
	}
	return r.limiter.file.change(r.parts, now, waits)
}

// Return gives back some of what is set aside, for an attempt that was not made.
func (r *Reservation) Return(back Amounts) {
	if r == nil || r.set == 0 {
		return
	}
	l := r.limiter
	l.acquire(r.set)
	defer l.release(r.set)
	if !r.open {
		return
	}
	left := r.taken.less(back)
	for i := range r.holds {
		if h := &r.holds[i]; h.cell.turn == h.turn {
			was := r.taken.Of(h.ceiling.Measure)
			is := left.Of(h.ceiling.Measure)
			h.cell.reserved -= max(was-h.before, 0) - max(is-h.before, 0)
		}
	}
	r.taken = left
}

// Settle counts what the call used in place of what was set aside, in the windows in
// which it was set aside, and ends the call. What is more than was set aside counts in
// full.
func (r *Reservation) Settle(now time.Time, used Amounts) {
	if r == nil || r.set == 0 {
		return
	}
	l, at := r.limiter, now.UnixNano()
	l.acquire(r.set)
	if !r.open {
		l.release(r.set)
		return
	}
	r.open = false
	var tell []crossing
	beyond := false // more is used than the file has as set aside
	for i := range r.holds {
		h := &r.holds[i]
		c := h.cell
		if c.turn != h.turn {
			continue // its window has ended
		}
		m := h.ceiling.Measure
		amount, reserved := used.Of(m), max(r.taken.Of(m)-h.before, 0)
		// A call that went on in a later window used there what it set aside there,
		// as far as is known.
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
		if _, end := l.span(c.window, c.start); at < end {
			tell = r.crosses(tell, &r.parts[h.part], c, h.ceiling, 80)
			if share >= 100 {
				tell = r.crosses(tell, &r.parts[h.part], c, h.ceiling, 100)
			}
		}
	}
	r.leave()
	written := r.write(at, false)
	clear(r.parts)
	clear(r.holds)
	l.release(r.set)
	if beyond {
		l.file.wait(written)
	} else {
		l.file.soon(written)
	}
	l.tell(tell)
}

// Refused tells of a call that was refused after More: Crossed gets the ceiling, once in
// its window, where what is used leaves too little. More itself tells nothing, since a
// call may go on with less.
func (l *Limiter) Refused(workspace string, now time.Time, refusal *Refusal) {
	if refusal.Never || refusal.RetryAfter <= 0 {
		return
	}
	var r Reservation
	r.begin(l, workspace, []Ask{refusal.Ask})
	r.enter(now.UnixNano())
	p := &r.parts[0]
	tell := r.crosses(nil, p, l.cell(p.account, &refusal.Ceiling, now.UnixNano()), &refusal.Ceiling, 100)
	r.leave()
	l.release(r.set)
	l.tell(tell)
}

// crossing is a call of Options.Crossed that is due.
type crossing struct {
	workspace string
	at        Standing
	percent   int
}

// crosses appends the call of Options.Crossed for a cell that has reached a level, 80 or
// 100 percent, the first time in its window.
func (r *Reservation) crosses(tell []crossing, p *part, c *cell, of *Ceiling, level int) []crossing {
	bit := uint8(1)
	if level == 100 {
		bit = 2
	}
	if c.told&bit != 0 {
		return tell
	}
	c.told |= bit
	if r.limiter.crossed == nil {
		return tell
	}
	return append(tell, crossing{p.book.workspace, r.limiter.standing(p.account, p.limit, of, c, c.start), level})
}

func (l *Limiter) tell(all []crossing) {
	for i := range all {
		l.crossed(all[i].workspace, all[i].at, all[i].percent)
	}
}
