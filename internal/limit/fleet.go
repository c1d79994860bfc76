package limit

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

const (
	// leases is the number of leases that make up a ceiling.
	leases = 20

	// exchangePause is the minimum time between two exchanges with a ledger.
	exchangePause = 20 * time.Millisecond

	// exchangeTimeout bounds one exchange, and finishTimeout the last one.
	exchangeTimeout = 5 * time.Second
	finishTimeout   = 2 * time.Second

	// largestExchange bounds the claims of one exchange.
	largestExchange = 1000

	// askAgain is how long a counter waits after the ledger had nothing for it.
	askAgain = time.Second

	// firstAway and longestAway bound the pause between two tries while a ledger is
	// unavailable. Calls are admitted again within a second of its return.
	firstAway   = 250 * time.Millisecond
	longestAway = 750 * time.Millisecond

	// A counter that was not used for idleAfter returns its lease. The fleet looks for
	// such counters every idleEvery.
	idleAfter = 10 * time.Second
	idleEvery = 5 * time.Second
)

// ErrInDoubt is returned by a Ledger that does not know whether it booked an exchange.
var ErrInDoubt = errors.New("the answer to an exchange was lost")

// Ledger books the amounts that the limiters of several processes may use together. Its
// methods are never called concurrently.
type Ledger interface {
	// Exchange books all claims or none, and returns the answers in the order of claims.
	// If it fails without ErrInDoubt, it has booked nothing. After ErrInDoubt, the limiter
	// repeats the exchange with the same id and claims before any other one. If the ledger
	// has already booked it, it does not book it again, and returns the same Granted.
	Exchange(ctx context.Context, id ExchangeID, claims []Claim) ([]Answer, error)
	Close() error
}

// ExchangeID identifies an exchange of a workspace.
type ExchangeID struct {
	Process string // random, one per limiter
	Number  int64  // rises with each exchange of the process
}

// Claim is a limiter's request to one counter of the ledger; an exchange has at most one
// claim per counter. Answer.Taken is the amount that all limiters may use of a counter.
// The ledger subtracts Back from it, then adds Owed, which may raise it above Most, and
// then adds the result of Grant.
type Claim struct {
	Limit, Subject string
	Measure        Measure
	Window         Window
	Start, End     time.Time // of the window
	Most           int64     // the ceiling
	Back           int64     // granted and not used
	Owed           int64     // used or set aside, and not granted
	Used           int64     // the change of the used amount since the last claim; may be negative
	Least          int64     // the amount that a call needs; 0: the claim asks for nothing
	Lease          int64     // the maximum that the claim asks for
	Known          bool      // the ledger has answered a claim of this window before
}

// Answer is the state of a counter of the ledger after an exchange.
type Answer struct {
	Granted int64 // to this claim, in addition to Owed
	Taken   int64
	Used    int64
}

// Grant returns the amount that a claim gets, given the taken amount of its counter: a
// lease, or an eighth of the remaining amount if that is less, so that unused leases hold
// little of an almost full ceiling. It is at least the amount that a call needs, if so
// much remains.
func (c *Claim) Grant(taken int64) int64 {
	remains := c.Most - taken
	if remains <= 0 || c.Least <= 0 {
		return 0
	}
	return min(remains, max(c.Least, min(c.Lease, remains/8)))
}

// portion is the part of a shared counter that this process may use.
type portion struct {
	granted  int64 // by the ledger, including the owed amounts that it has booked
	unbooked int64 // the part of granted that was used before the counter was shared
	reported int64 // the part of the used amount that the ledger knows
	others   int64 // the amount that the other processes had reported
	largest  int64 // the largest amount that a call has asked for
	low      int64 // if less is left, the counter asks for more
	remains  int64 // of the ceiling, when the ledger answered
	ceiling  int64
	answered int64         // the time of the ledger's answer, in nanoseconds since 1970
	touched  int64         // the time of the last call
	awaited  int64         // the amounts that waiting calls need
	answer   chan struct{} // closed when these calls may try again; nil: no call waits
	queued   *fleet
	known    bool // the ledger has answered
}

// full reports whether nothing of the ceiling remained when the ledger answered.
func (p *portion) full() bool { return p.known && p.remains <= 0 }

// credit returns the amount that may be used beyond the granted amount: a lease, or an
// eighth of the amount that remained when the ledger answered, if that is less.
func (p *portion) credit() int64 {
	if !p.known {
		return p.lease()
	}
	return min(p.lease(), max(p.remains, 0)/8)
}

// lease returns the size of a lease.
func (p *portion) lease() int64 {
	return min(max((p.ceiling+leases-1)/leases, p.largest, 1), max(p.ceiling, 1))
}

// left returns the granted amount that is neither used nor set aside. If it is negative,
// the limiter owes that amount.
func (c *cell) left() int64 { return c.portion.granted - sum(c.used, c.reserved) }

// total returns the amount used by all processes, as far as it is known.
func (c *cell) total() int64 {
	if c.portion == nil {
		return c.used
	}
	return sum(c.used, c.portion.others)
}

// share gives a cell its portion, or removes it if the counter is no longer shared.
func (c *cell) share(f *fleet, ceiling *Ceiling, now int64) {
	if f == nil {
		if c.portion != nil {
			c.portion.wake()
			c.portion = nil
		}
		return
	}
	if c.portion == nil {
		had := sum(c.used, c.reserved)
		c.portion = &portion{granted: had, unbooked: had}
	}
	p := c.portion
	if p.ceiling > 0 && p.ceiling != ceiling.Most {
		p.remains += ceiling.Most - p.ceiling // a reload has changed the ceiling
	}
	p.touched, p.ceiling = now, ceiling.Most
}

// restart begins the portion of a new window, whose used amount is set already.
func (c *cell) restart() {
	if p := c.portion; p != nil {
		had := sum(c.used, c.reserved)
		p.wake()
		*p = portion{granted: had, unbooked: had, largest: p.largest, awaited: p.awaited, queued: p.queued}
	}
}

// allows reports whether an amount fits below a ceiling. If the ceiling is shared, the
// amount must also fit in the granted amount and the credit of this process.
func (c *cell) allows(ceiling *Ceiling, amount int64) bool {
	free := ceiling.Most - sum(c.total(), c.reserved)
	if p := c.portion; p != nil {
		left := c.left()
		free = min(free, sum(max(left, 0), p.credit())+min(left, 0))
	}
	return amount <= free
}

// fits reports whether an amount fits below a ceiling. If it does not and the ceiling is
// shared, fits queues the counter so that the fleet asks for more.
func (c *cell) fits(a *account, ceiling *Ceiling, amount int64) bool {
	p := c.portion
	if p != nil && amount <= ceiling.Most {
		p.largest = max(p.largest, amount)
	}
	if c.allows(ceiling, amount) {
		return true
	}
	if p != nil && amount <= ceiling.Most {
		a.book.fleet.Load().need(a, c)
	}
	return false
}

// watch queues a counter that has little left, to ask for more, or that has more than two
// leases left, to return the excess. The caller holds the lock of the account's shard.
func (a *account) watch(c *cell) {
	if c.portion == nil {
		return
	}
	if left := c.left(); left < c.portion.low || c.portion.answered == 0 || left > 2*c.portion.lease() {
		a.book.fleet.Load().need(a, c)
	}
}

// entry is a counter with its claim.
type entry struct {
	account *account
	cell    *cell
	turn    uint32
	claim   Claim
	booked  int64 // the part of Owed that was used before the counter was shared
}

// exchange has the claims that a ledger books together.
type exchange struct {
	id      ExchangeID
	entries []entry
}

// fleet exchanges the claims of a workspace with its ledger.
type fleet struct {
	limiter   *Limiter
	workspace string
	ledger    Ledger
	logger    *slog.Logger

	wake, done chan struct{}
	hurry      chan struct{}   // has a value while calls wait
	ctx        context.Context // cancelled by end, when the fleet ends
	end        context.CancelFunc
	work       context.Context // of exchanges; a running one may outlive ctx, until cut
	cut        context.CancelFunc

	mu    sync.Mutex
	queue []entry
	begun time.Time // the start of the running exchange; zero: none is running
	since time.Time // the start of an outage of the ledger; zero: it is available
	err   error

	// Only the goroutine of run uses these fields.
	before *fleet          // the fleet that must end first, or nil
	doubt  *exchange       // may be booked, and is repeated before any other; nil: none
	held   map[*cell]entry // counters that may have a lease to return
	lookAt time.Time       // the time of the next look at held
}

// SetLedger makes a workspace share its limits through a ledger, which the limiter closes
// when it is no longer used. With nil, the limits are no longer shared. Grants of an
// earlier ledger stay valid. A running exchange with the earlier ledger ends first, and
// its bookings and grants count.
func (l *Limiter) SetLedger(workspace string, ledger Ledger) {
	l.sharing.Lock()
	defer l.sharing.Unlock()
	old := l.fleet(workspace)
	if old == nil && ledger == nil {
		return
	}
	var next *fleet
	if ledger != nil {
		next = &fleet{
			limiter: l, workspace: workspace, ledger: ledger, logger: l.logger, wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1),
			done: make(chan struct{}), held: make(map[*cell]entry), before: old,
		}
		next.ctx, next.end = context.WithCancel(context.Background())
		next.work, next.cut = context.WithCancel(context.Background())
	}
	l.adding.Lock()
	if next != nil {
		l.fleets.Store(workspace, next)
	} else {
		l.fleets.Delete(workspace)
	}
	for _, b := range *l.books.Load() {
		if b.workspace == workspace {
			b.fleet.Store(next)
		}
	}
	l.adding.Unlock()
	if next != nil {
		go next.run() // so that a reload does not wait for a database
	} else {
		old.finish()
	}
}

// fleet returns the fleet of a workspace, or nil if its limits are not shared.
func (l *Limiter) fleet(workspace string) *fleet {
	if f, ok := l.fleets.Load(workspace); ok {
		return f.(*fleet)
	}
	return nil
}

// Shared reports whether the limits of a workspace are shared. If the ledger is
// unavailable, Shared returns the start of the outage and its error.
func (l *Limiter) Shared(workspace string) (shared bool, since time.Time, err error) {
	f := l.fleet(workspace)
	if f == nil {
		return false, time.Time{}, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return true, f.since, f.err
}

// need queues a counter. If the ledger had nothing for it, need does so only a second
// after the ledger's last answer. The caller holds the lock of the account's shard.
func (f *fleet) need(a *account, c *cell) {
	p := c.portion
	if f == nil || p.queued == f {
		return
	}
	if p.full() && c.left() <= 2*p.lease() {
		// Not the call's time, which may be before the answer.
		if since := time.Now().UnixNano() - p.answered; since >= 0 && since < int64(askAgain) {
			return
		}
	}
	p.queued = f
	f.mu.Lock()
	f.queue = append(f.queue, entry{account: a, cell: c})
	f.mu.Unlock()
	f.poke()
}

func (f *fleet) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *fleet) run() {
	defer close(f.done)
	if f.before != nil {
		f.before.leave(f.work)
		f.held, f.doubt = f.before.held, f.before.doubt
		go f.before.close() // takes long if the database hangs
		f.before = nil
	}
	timer := time.NewTimer(exchangePause) // for counters that another fleet has left
	defer timer.Stop()
	away := time.Duration(0)
	for {
		select {
		case <-f.wake:
		case <-timer.C:
		case <-f.ctx.Done():
			return
		}
		err := f.exchange(f.work, false)
		if f.work.Err() != nil {
			return
		}
		f.note(err)
		if err != nil {
			away = min(max(2*away, firstAway), longestAway)
			f.wakeQueued() // no call waits for an unavailable ledger
			f.poke()
			if !sleep(f.ctx, away, nil) {
				return
			}
		} else if away = 0; !f.pause(f.ctx) {
			return
		}
		if len(f.held) > 0 {
			timer.Reset(idleEvery)
		}
	}
}

// begin stores the start of the running exchange, or zero.
func (f *fleet) begin(at time.Time) {
	f.mu.Lock()
	f.begun = at
	f.mu.Unlock()
}

// note stores the result of an exchange, and logs the beginning and end of an outage.
func (f *fleet) note(err error) {
	f.mu.Lock()
	since := f.since
	f.err = err
	switch {
	case err == nil:
		f.since = time.Time{}
	case since.IsZero():
		f.since = time.Now()
	}
	f.mu.Unlock()
	switch {
	case err == nil && !since.IsZero():
		f.logger.Info("limits are being shared again", "workspace", f.workspace)
	case err != nil && since.IsZero():
		f.logger.Error("limits are not shared; each counter may use what it was granted and one lease", "workspace", f.workspace, "error", err)
	}
}

// exchange repeats the exchange in doubt, then sends the claims of queued counters and the
// returns of idle ones; if all is true, the returns of all counters.
func (f *fleet) exchange(ctx context.Context, all bool) error {
	select {
	case <-f.hurry: // the counters of waiting calls are in the queue
	default:
	}
	if f.doubt != nil {
		if err := f.send(ctx, f.doubt); err != nil {
			return err
		}
		f.doubt = nil
	}
	f.mu.Lock()
	queue := f.queue
	f.queue = nil
	f.mu.Unlock()
	var batch []entry
	claimed := make(map[*cell]bool) // reloads may have queued a counter twice
	for i := range queue {
		if e := queue[i]; !claimed[e.cell] && f.claim(&e, true, all) {
			claimed[e.cell] = true
			batch = append(batch, e)
		}
	}
	if now := time.Now(); all || !now.Before(f.lookAt) {
		f.lookAt = now.Add(idleEvery)
		for _, e := range f.held {
			if f.claim(&e, false, all) {
				batch = append(batch, e)
			}
		}
	}
	f.keep(batch)
	for len(batch) > 0 {
		x := &exchange{
			id:      ExchangeID{f.limiter.process, f.limiter.latest.Add(1)},
			entries: batch[:min(len(batch), largestExchange)],
		}
		batch = batch[len(x.entries):]
		if err := f.send(ctx, x); err != nil {
			if errors.Is(err, ErrInDoubt) {
				f.doubt = x
			} else {
				f.undo(x.entries)
			}
			f.undo(batch)
			return err
		}
	}
	return nil
}

// send sends an exchange to the ledger, and applies the answers.
func (f *fleet) send(ctx context.Context, x *exchange) error {
	claims := make([]Claim, len(x.entries))
	for i := range x.entries {
		claims[i] = x.entries[i].claim
	}
	timed, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	f.begin(time.Now())
	answers, err := f.ledger.Exchange(timed, x.id, claims)
	f.begin(time.Time{})
	if err == nil && len(answers) != len(claims) {
		err = errors.Join(ErrInDoubt, errors.New("the ledger did not answer all claims"))
	}
	if err != nil {
		return err
	}
	for i := range x.entries {
		f.apply(&x.entries[i], &answers[i])
	}
	return nil
}

// keep writes to the file what claims return, before the ledger gives it to other
// processes. If this process is killed then, it must not use it after a restart.
func (f *fleet) keep(batch []entry) {
	l, last := f.limiter, -1
	for i := range batch {
		if batch[i].claim.Back > 0 {
			last = i
		}
	}
	for i := range batch[:last+1] {
		if e := &batch[i]; e.claim.Back > 0 {
			lock := &l.locks[e.account.shard]
			lock.Lock()
			l.file.change([]part{{account: e.account}}, time.Now().UnixNano())
			lock.Unlock()
		}
	}
	if last >= 0 {
		l.file.wait()
	}
}

// claim makes the claim of a counter, and reports whether there is one. From then on, this
// process can't use the amount that the claim returns.
func (f *fleet) claim(e *entry, queued, all bool) bool {
	l, a, c := f.limiter, e.account, e.cell
	lock := &l.locks[a.shard]
	lock.Lock()
	defer lock.Unlock()
	p := c.portion
	now := time.Now().UnixNano()
	start, end := c.start, int64(0)
	if p != nil {
		if _, end = c.window.span(start); now >= end {
			p.queued = nil
			p.wake()
		}
	}
	if p == nil || now >= end { // a lease ends with its window
		delete(f.held, c)
		return false
	}
	if !queued && p.queued == f {
		return false // it has a claim, or will have one in the next exchange
	}
	idle := all || c.reserved == 0 && now-p.touched >= int64(idleAfter)
	if !queued && !idle {
		return false
	}
	left, lease := c.left(), p.lease()
	e.turn, e.booked = c.turn, p.unbooked
	e.claim = Claim{
		Limit: a.book.limit, Subject: a.subject, Measure: c.measure, Window: c.window, Start: time.Unix(0, start), End: time.Unix(0, end),
		Most: p.ceiling, Owed: sum(p.unbooked, max(-left, 0)), Used: c.used - p.reported, Known: p.known,
	}
	switch {
	case idle:
		e.claim.Back = max(left, 0)
	case left > 2*lease+p.awaited:
		e.claim.Back = left - lease - p.awaited
	case left < max(lease, p.awaited):
		have := max(left, 0)
		e.claim.Least = max(p.largest, p.awaited-have, 1)
		e.claim.Lease = max(lease, p.awaited) - have
	}
	p.granted -= e.claim.Back
	p.queued = f
	return true
}

// apply applies the answer to a claim.
func (f *fleet) apply(e *entry, answer *Answer) {
	l, c := f.limiter, e.cell
	lock := &l.locks[e.account.shard]
	lock.Lock()
	defer lock.Unlock()
	p := c.portion
	if p == nil {
		delete(f.held, c)
		return
	}
	if p.queued == f {
		p.queued = nil
	}
	defer p.wake()
	if c.turn != e.turn { // the window has ended
		e.account.watch(c)
		return
	}
	now := time.Now().UnixNano()
	p.unbooked -= e.booked
	p.granted = sum(p.granted, e.claim.Owed-e.booked+answer.Granted)
	p.reported += e.claim.Used
	p.others = max(answer.Used-p.reported, 0)
	p.low = max(min(c.left(), p.lease())/2, p.largest)
	p.known, p.remains = true, e.claim.Most-answer.Taken
	p.answered = now
	if e.claim.Least == 0 && c.left() == 0 && c.reserved == 0 && c.used == p.reported {
		delete(f.held, c) // until it is used again
		p.answered = 0
	} else {
		f.held[c] = entry{account: e.account, cell: c}
	}
	l.file.change([]part{{account: e.account}}, now)
	l.file.flush()
}

// undo cancels claims that were not booked, and queues their counters again.
func (f *fleet) undo(batch []entry) {
	for i := range batch {
		e := batch[i]
		lock := &f.limiter.locks[e.account.shard]
		lock.Lock()
		if p := e.cell.portion; p != nil && e.cell.turn == e.turn && e.claim.Back > 0 {
			p.granted = sum(p.granted, e.claim.Back)
			f.limiter.file.change([]part{{account: e.account}}, time.Now().UnixNano())
		}
		lock.Unlock()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = append(f.queue, batch...)
}

// leave ends the fleet after its running exchange; it cuts the exchange short when ctx
// ends. It moves the queued counters to held.
func (f *fleet) leave(ctx context.Context) {
	f.end()
	select {
	case <-f.done:
	case <-ctx.Done():
		f.cut()
		<-f.done
	}
	f.wakeQueued()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.queue {
		f.held[e.cell] = entry{account: e.account, cell: e.cell}
	}
}

// finish ends the fleet, returns its leases, and closes the ledger.
func (f *fleet) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), finishTimeout)
	defer cancel()
	f.leave(ctx)
	if err := f.exchange(ctx, true); err != nil {
		f.logger.Warn("what limits have not used is not returned", "workspace", f.workspace, "error", err)
	}
	f.close()
}

func (f *fleet) close() {
	f.cut()
	if err := f.ledger.Close(); err != nil {
		f.logger.Warn("closing the ledger of limits", "workspace", f.workspace, "error", err)
	}
}
