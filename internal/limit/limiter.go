package limit

import (
	"cmp"
	"crypto/rand"
	"hash/maphash"
	"log/slog"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxMemory bounds what subjects that are counted apart take in memory, of all
	// limits together, in bytes, where the options have no bound of their own: some
	// 200,000 with a counter each.
	MaxMemory = 64 << 20

	// loadWait is how long a call waits for the counters of the file.
	loadWait = time.Second

	// Others is the subject of all whose limit has no room for another one.
	Others = "*"

	// shards are the locks that subjects are divided among. A set of them is a mask
	// of 64 bits.
	shards = 64

	// looked is how many subjects of a shard are looked at, to drop those whose windows
	// have ended, whenever another one comes.
	looked = 4
)

// Limiter keeps the counters of all workspaces of a store. It is safe for concurrent
// use. A subject takes no time while it is not used: no timer and no goroutine
// belongs to it.
type Limiter struct {
	crossed  func(workspace string, at Standing, percent int)
	most     atomic.Int64 // that accounts may take, in bytes
	seed     maphash.Seed
	locks    [shards]lock
	books    atomic.Pointer[map[bookName]*book]
	adding   sync.Mutex // of books
	sharing  sync.Mutex // held by SetLedger
	fleets   sync.Map   // by the names of the workspaces whose limits are shared
	logger   *slog.Logger
	month    atomic.Pointer[month]
	subjects atomic.Int64
	bytes    atomic.Int64 // that accounts take
	hashes   sync.Map     // of subjects, by the workspace: see SetHash
	shared   atomic.Int64
	exceeded atomic.Int64
	numbers  atomic.Uint64
	process  string       // as ledgers know it
	latest   atomic.Int64 // exchange with a ledger
	file     *file        // nil: in memory alone
}

// lock fills a line of the processor's cache, so that neighbours don't share one.
type lock struct {
	sync.Mutex
	_ [56]byte
}

// month is the month that was asked for last.
type month struct{ start, end int64 }

// Options are those of a limiter.
type Options struct {
	// Path is that of the file with the state, which is made if there is none. A second
	// one beside it has the same name with "-2". Empty: the state is in memory alone.
	Path string
	// Logger gets what happens to the file and the ledgers. Default: none of it is
	// logged.
	Logger *slog.Logger
	// Crossed, where set, is called with 80 when a subject has used 80 percent of a
	// ceiling, and with 100 when it has used all of it, or is refused because what it
	// has used leaves too little: once for each in a window. Amounts that are only set
	// aside don't count, nor do ceilings of calls in flight. It is called without a
	// lock held, by the goroutine of the call.
	Crossed func(workspace string, at Standing, percent int)
	// MaxMemory bounds what subjects that are counted apart take in memory, in bytes.
	// Default: MaxMemory.
	MaxMemory int64
	// Background has Open return at once, and read the file meanwhile. Until it is read
	// a reservation waits for a second, and is refused then.
	Background bool
}

// Open returns the limiter with the state of its file. Where the file can't be used, the
// limiter counts in memory, tries again, and Err says so.
func Open(o Options) *Limiter { return openOn(o, osDisk) }

func openOn(o Options, d disk) *Limiter {
	l := &Limiter{crossed: o.Crossed, seed: maphash.MakeSeed(), process: rand.Text()}
	l.most.Store(cmp.Or(o.MaxMemory, MaxMemory))
	l.books.Store(&map[bookName]*book{})
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l.logger = o.Logger
	if o.Path != "" {
		l.file = openFile(l, o.Path, o.Logger, d)
		if !o.Background {
			<-l.file.loaded
		}
	}
	return l
}

// SetMaxMemory changes what subjects may take in memory, in bytes. Those that are counted
// apart already stay so.
func (l *Limiter) SetMaxMemory(bytes int64) { l.most.Store(bytes) }

// Close returns to the ledgers what is not used, writes what is left and closes the
// file. What is set aside then, for calls that have not ended, counts in full when the
// file is opened again.
func (l *Limiter) Close() error {
	var ending sync.WaitGroup
	l.fleets.Range(func(_, f any) bool {
		ending.Go(func() { f.(*fleet).finish() })
		return true
	})
	ending.Wait()
	if l.file == nil {
		return nil
	}
	return l.file.close()
}

// Err returns why the file can't have what is counted now; nil where it can. What is
// counted meanwhile is lost if the process ends before the file can be written again.
func (l *Limiter) Err() error {
	if l.file == nil {
		return nil
	}
	return l.file.failure()
}

// Stats are counts since the limiter was opened.
type Stats struct {
	// Subjects are those that are counted apart now.
	Subjects int
	// Shared are the calls that were counted under Others, because there was no room
	// for their subject.
	Shared int64
	// Exceeded are the counters that a settlement brought above their ceiling: calls
	// used more than was set aside for them.
	Exceeded int64
	// Crashed are the calls that had not ended when the process before this one did,
	// each in every limit that it counted for.
	Crashed int64
	// Damaged are the records of the file that were passed over because they are not
	// what was written.
	Damaged int64
}

// Stats returns what the limiter has counted of itself.
func (l *Limiter) Stats() Stats {
	s := Stats{Subjects: int(l.subjects.Load()), Shared: l.shared.Load(), Exceeded: l.exceeded.Load()}
	if l.file != nil {
		l.file.mu.Lock()
		s.Crashed, s.Damaged = l.file.crashed, l.file.damaged
		l.file.mu.Unlock()
	}
	return s
}

// span is Window.span, which takes 60 ns of a month.
func (l *Limiter) span(w Window, now int64) (start, end int64) {
	if w.Length > 0 {
		return w.span(now)
	}
	if m := l.month.Load(); m != nil && m.start <= now && now < m.end {
		return m.start, m.end
	}
	start, end = w.span(now)
	if m := l.month.Load(); m == nil || start > m.start { // not that of an old counter
		l.month.Store(&month{start, end})
	}
	return start, end
}

// acquire locks a set of shards, always in the same order.
func (l *Limiter) acquire(set uint64) {
	for ; set != 0; set &= set - 1 {
		l.locks[bits.TrailingZeros64(set)].Lock()
	}
}

func (l *Limiter) release(set uint64) {
	for ; set != 0; set &= set - 1 {
		l.locks[bits.TrailingZeros64(set)].Unlock()
	}
}

// Reserve sets want aside for a call at each of the asks, or at none where one of their
// ceilings has no room: the refusal says which. It counts the call as in flight. An
// amount of zero has always room. Of several asks for one subject of one limit, the
// first counts.
func (l *Limiter) Reserve(workspace string, now time.Time, asks []Ask, want Amounts) (*Reservation, *Refusal) {
	r := new(Reservation)
	if refusal := l.ReserveInto(r, workspace, now, asks, want); refusal != nil {
		return nil, refusal
	}
	return r, nil
}

// ReserveInto is Reserve into a reservation of the caller's, without an allocation. The
// reservation must be new, or settled, and must not be copied.
func (l *Limiter) ReserveInto(r *Reservation, workspace string, now time.Time, asks []Ask, want Amounts) *Refusal {
	r.begin(l, workspace, asks)
	if len(asks) == 0 {
		return nil
	}
	if !l.file.isLoaded(r.Context) {
		return &Refusal{Ask: asks[0], Loading: true}
	}
	var wait waiting
	for at := now; ; at = now.Add(wait.passed()) {
		refusal, tell, answer := l.reserve(r, at.UnixNano(), asks, want)
		if answer == nil || !wait.until(r.Context, answer) {
			l.tell(tell)
			return refusal
		}
	}
}

// reserve tries to set want aside once. Where waiting for a ledger's answer may help, it
// returns the channel that is closed then.
func (l *Limiter) reserve(r *Reservation, at int64, asks []Ask, want Amounts) (refusal *Refusal, tell []crossing, answer <-chan struct{}) {
	r.enter(at)
	refusal, tell = r.check(at, asks, want)
	var written *wait
	if refusal == nil {
		r.take(want)
		written = r.write(at, true)
	} else {
		answer = r.answer(want)
		r.leave()
	}
	l.release(r.set)
	l.file.wait(written)
	return refusal, tell, answer
}
