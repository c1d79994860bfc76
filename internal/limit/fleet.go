package limit

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

const (
	// leases is how many leases a ceiling is divided into.
	leases = 20

	// exchangePause is the least time between two exchanges with a ledger.
	exchangePause = 20 * time.Millisecond

	// exchangeTimeout bounds one exchange, and finishTimeout the last one.
	exchangeTimeout = 5 * time.Second
	finishTimeout   = 2 * time.Second

	// largestExchange bounds the claims of one exchange.
	largestExchange = 1000

	// askAgain is how long a counter waits that a ledger had nothing for.
	askAgain = time.Second

	// firstAway and longestAway are between two tries with a ledger that is away: so that
	// calls are let in again within a second of its return.
	firstAway   = 250 * time.Millisecond
	longestAway = 750 * time.Millisecond

	// idleAfter is after how long without use a counter returns what it has not used,
	// and idleEvery how often the counters that have something are looked at.
	idleAfter = 10 * time.Second
	idleEvery = 5 * time.Second
)

// ErrInDoubt is an error of a Ledger that does not know whether an exchange was booked.
var ErrInDoubt = errors.New("the answer to an exchange was lost")

// Ledger books what the limiters of several processes may use together. One goroutine
// at a time calls its methods.
type Ledger interface {
	// Exchange books all claims or none, and returns the answers in their order. Where
	// it fails without ErrInDoubt, this call has booked nothing. An exchange that was
	// in doubt is made again with the same id and claims, before any other one: where it
	// is booked already it is not booked again, and Granted is what it was then.
	Exchange(ctx context.Context, id ExchangeID, claims []Claim) ([]Answer, error)
	Close() error
}

// ExchangeID names an exchange of a workspace.
type ExchangeID struct {
	Process string // random, of each limiter
	Number  int64  // rises with each exchange of the process
}

// Claim is what a limiter asks of a counter of the ledger, of which it has at most one
// in an exchange. Taken is what limiters may use of a counter; the ledger first takes
// Back from it, then adds Owed, which may bring it above Most, and then grants what
// Grant says.
type Claim struct {
	Limit, Subject string
	Measure        Measure
	Window         Window
	Start, End     time.Time // of the window
	Most           int64     // the ceiling
	Back           int64     // was granted, and is not used
	Owed           int64     // is used, or set aside, and was not granted
	Used           int64     // what was used since the last claim; below zero: less
	Least          int64     // what a call needs; 0: nothing is asked for
	Lease          int64     // the most that is asked for
	Known          bool      // the ledger has answered a claim of this window before
}

// Answer is what a counter of the ledger has after an exchange.
type Answer struct {
	Granted int64 // to this claim, beside what it owed
	Taken   int64
	Used    int64
}

// Grant returns what a claim gets of a ceiling, of which so much is taken: a lease, and
// towards the end an eighth of what remains, though as much as one call needs, so that
// little of a ceiling lies in leases that are not used.
func (c *Claim) Grant(taken int64) int64 {
	remains := c.Most - taken
	if remains <= 0 || c.Least <= 0 {
		return 0
	}
	return min(remains, max(c.Least, min(c.Lease, remains/8)))
}

// portion is the part of a shared counter that this process may use.
type portion struct {
	granted  int64 // by the ledger, with what is owed where that is booked
	unbooked int64 // of granted: what was used before the counter was shared
	reported int64 // of what is used, to the ledger
	others   int64 // what the other processes had reported
	largest  int64 // the most that a call has asked for
	low      int64 // asks for more when less is left
	remains  int64 // of the ceiling, when the ledger answered
	most     int64
	answered int64         // when the ledger did, in nanoseconds since 1970
	touched  int64         // when a call did
	awaited  int64         // what calls wait for
	answer   chan struct{} // closed when they may look again; nil: none waits
	queued   *fleet
	known    bool // the ledger has answered
}

// full reports whether the ledger had nothing more when it answered.
func (p *portion) full() bool { return p.known && p.remains <= 0 }

// credit returns what may be used beyond what is granted: a lease, and towards the end
// of the ceiling an eighth of what remained when the ledger answered.
func (p *portion) credit() int64 {
	if !p.known {
		return p.lease()
	}
	return min(p.lease(), max(p.remains, 0)/8)
}

// lease returns the size of a lease.
func (p *portion) lease() int64 {
	return min(max((p.most+leases-1)/leases, p.largest, 1), max(p.most, 1))
}

// left returns what is granted and neither used nor set aside. It is below zero by what
// is owed.
func (c *cell) left() int64 { return c.portion.granted - sum(c.used, c.reserved) }

// total returns what is used by all processes, as far as it is known.
func (c *cell) total() int64 {
	if c.portion == nil {
		return c.used
	}
	return sum(c.used, c.portion.others)
}

// share gives a cell its portion, or takes it where the counter is no longer shared.
func (c *cell) share(f *fleet, of *Ceiling, now int64) {
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
	if p.most > 0 && p.most != of.Most {
		p.remains += of.Most - p.most // a reload has changed the ceiling
	}
	p.touched, p.most = now, of.Most
}

// restart begins the portion of another window, which has inherited what is used.
func (c *cell) restart() {
	if p := c.portion; p != nil {
		had := sum(c.used, c.reserved)
		p.wake()
		*p = portion{granted: had, unbooked: had, largest: p.largest, queued: p.queued}
	}
}

// room reports whether a ceiling has room for an amount. Of a shared one a process may
// use what it was granted, and some more on credit.
func (c *cell) room(of *Ceiling, amount int64) bool {
	free := of.Most - sum(c.total(), c.reserved)
	if p := c.portion; p != nil {
		left := c.left()
		free = min(free, sum(max(left, 0), p.credit())+min(left, 0))
	}
	return amount <= free
}

// fits reports whether a ceiling has room for an amount, and has more asked for where a
// shared one has none.
func (c *cell) fits(a *account, of *Ceiling, amount int64) bool {
	p := c.portion
	if p != nil && amount <= of.Most {
		p.largest = max(p.largest, amount)
	}
	if c.room(of, amount) {
		return true
	}
	if p != nil && amount <= of.Most {
		a.book.fleet.Load().need(a, c)
	}
	return false
}

// watch has more asked for where little is left, and returned what is left beyond two
// leases. The lock of the account's shard is held.
func (a *account) watch(c *cell) {
	if c.portion == nil {
		return
	}
	if left := c.left(); left < c.portion.low || c.portion.answered == 0 || left > 2*c.portion.lease() {
		a.book.fleet.Load().need(a, c)
	}
}

// entry is a counter that has a claim.
type entry struct {
	account *account
	cell    *cell
	turn    uint32
	claim   Claim
	booked  int64 // of Owed: what was used before the counter was shared
}

// exchange is what a ledger books at once.
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
	hurry      chan struct{}   // calls wait
	ctx        context.Context // until the fleet ends
	end        context.CancelFunc
	work       context.Context // of exchanges: the one under way may go on after the end
	cut        context.CancelFunc

	mu    sync.Mutex
	queue []entry
	begun time.Time // the exchange that is under way; zero: none is
	since time.Time // the ledger has been away; zero: it is there
	err   error

	// What follows is for the goroutine alone.
	before *fleet          // has to end first; nil: none
	doubt  *exchange       // may be booked, and is made again before any other; nil: none
	held   map[*cell]entry // may have something to return
	lookAt time.Time       // at what is held
}

// SetLedger has the limits of a workspace shared by a ledger, which the limiter closes in
// the end; nil: they are this process's own. What an earlier ledger has granted is
// still granted, and an exchange with it that is under way comes to its end first: what
// it books and grants counts.
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
		go next.run() // a reload waits for no database
	} else {
		old.finish()
	}
}

// fleet returns that of a workspace, nil where its limits are not shared.
func (l *Limiter) fleet(workspace string) *fleet {
	if f, ok := l.fleets.Load(workspace); ok {
		return f.(*fleet)
	}
	return nil
}

// Shared reports whether the limits of a workspace are shared, and since when its ledger
// has been away, and why; the zero time where it is there.
func (l *Limiter) Shared(workspace string) (shared bool, since time.Time, err error) {
	f := l.fleet(workspace)
	if f == nil {
		return false, time.Time{}, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return true, f.since, f.err
}

// need queues a counter. The lock of its account's shard is held. One that the ledger
// has nothing for is queued a second after its last answer.
func (f *fleet) need(a *account, c *cell) {
	p := c.portion
	if f == nil || p.queued == f {
		return
	}
	if p.full() && c.left() <= 2*p.lease() {
		// A call's own time may be before the answer.
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
		go f.before.close() // which a database that hangs may take long for
		f.before = nil
	}
	timer := time.NewTimer(exchangePause) // for what another fleet has left
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
			f.wakeQueued() // no call waits for a ledger that is away
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

// begin notes when the exchange that is under way has begun.
func (f *fleet) begin(at time.Time) {
	f.mu.Lock()
	f.begun = at
	f.mu.Unlock()
}

// note notes and logs whether the ledger is there.
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

// exchange exchanges what is in doubt, then what is queued, and what counters return that
// are not used; with all set, what all counters can return.
func (f *fleet) exchange(ctx context.Context, all bool) error {
	select {
	case <-f.hurry: // those that wait are in the queue
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

// send has the ledger book an exchange, and counts what it brings.
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

// keep has the file have what claims return, before a ledger gives it to others: a
// process that is killed then must not use it when it begins again.
func (f *fleet) keep(batch []entry) {
	l, last := f.limiter, -1
	for i := range batch {
		if batch[i].claim.Back > 0 {
			last = i
		}
	}
	var written *wait
	for i := range batch[:last+1] {
		if e := &batch[i]; e.claim.Back > 0 {
			lock := &l.locks[e.account.shard]
			lock.Lock()
			written = l.file.change([]part{{account: e.account}}, time.Now().UnixNano(), i == last)
			lock.Unlock()
		}
	}
	l.file.wait(written)
}

// claim makes the claim of a counter, and reports whether there is one. What it returns
// can't be used any more.
func (f *fleet) claim(e *entry, queued, all bool) bool {
	l, a, c := f.limiter, e.account, e.cell
	lock := &l.locks[a.shard]
	lock.Lock()
	defer lock.Unlock()
	p := c.portion
	now := time.Now().UnixNano()
	start, end := c.start, int64(0)
	if p != nil {
		if _, end = l.span(c.window, start); now >= end {
			p.queued = nil
			p.wake()
		}
	}
	if p == nil || now >= end { // what is left of a window goes with it
		delete(f.held, c)
		return false
	}
	if !queued && p.queued == f {
		return false // it has its claim, or is the next one's
	}
	idle := all || c.reserved == 0 && now-p.touched >= int64(idleAfter)
	if !queued && !idle {
		return false
	}
	left, lease := c.left(), p.lease()
	e.turn, e.booked = c.turn, p.unbooked
	e.claim = Claim{
		Limit: a.book.limit, Subject: a.subject, Measure: c.measure, Window: c.window, Start: time.Unix(0, start), End: time.Unix(0, end),
		Most: p.most, Owed: sum(p.unbooked, max(-left, 0)), Used: c.used - p.reported, Known: p.known,
	}
	switch {
	case idle:
		e.claim.Back = max(left, 0)
	case left > 2*lease:
		e.claim.Back = left - lease
	case left < max(lease, p.awaited):
		have := max(left, 0)
		e.claim.Least = max(p.largest, p.awaited-have, 1)
		e.claim.Lease = max(lease, p.awaited) - have
	}
	p.granted -= e.claim.Back
	p.queued = f
	return true
}

// apply counts what an exchange has brought.
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
	l.file.wait(l.file.change([]part{{account: e.account}}, now, false))
}

// undo takes claims back that were not booked, and queues them again.
func (f *fleet) undo(batch []entry) {
	for i := range batch {
		e := batch[i]
		lock := &f.limiter.locks[e.account.shard]
		lock.Lock()
		if p := e.cell.portion; p != nil && e.cell.turn == e.turn && e.claim.Back > 0 {
			p.granted = sum(p.granted, e.claim.Back)
			f.limiter.file.change([]part{{account: e.account}}, time.Now().UnixNano(), false)
		}
		lock.Unlock()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = append(f.queue, batch...)
}

// leave ends the fleet, and has what it was asked for among what it holds. An exchange
// under way comes to its end before, or ctx does.
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

// finish ends the fleet, returns what it holds, and closes the ledger.
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
