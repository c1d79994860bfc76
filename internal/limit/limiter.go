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

	"github.com/cadenza-gateway/cadenza/internal/journal"
)

const (
	// MaxMemory is the default of Options.MaxMemory, in bytes: some 200,000 subjects with
	// a counter each.
	MaxMemory = 64 << 20

	// loadWait is how long a call waits for the counters of the file.
	loadWait = time.Second

	// Others is the common subject of calls whose own subject does not fit in memory.
	Others = "*"

	// shards is the number of locks. Each subject has one of them; a mask of 64 bits
	// is a set of locks.
	shards = 64

	// looked is the number of subjects of a shard that are examined, and dropped if
	// their windows have ended, whenever a new subject is added.
	looked = 4
)

// Limiter keeps the counters of all workspaces of a store. It is safe for concurrent
// use. A subject has no timer and no goroutine: it costs no time while it is idle.
type Limiter struct {
	crossed  func(workspace string, standing Standing, percent int)
	maxBytes atomic.Int64 // of all accounts
	seed     maphash.Seed
	locks    [shards]lock
	books    atomic.Pointer[map[bookName]*book]
	adding   sync.Mutex // of books
	sharing  sync.Mutex // held by SetLedger
	fleets   sync.Map   // by the name of the workspace; only those with shared limits
	logger   *slog.Logger
	subjects atomic.Int64
	bytes    atomic.Int64 // used by accounts
	hashes   sync.Map     // of subjects, by the workspace: see SetHash
	shared   atomic.Int64
	exceeded atomic.Int64
	process  string       // the random name of this process in ledgers
	latest   atomic.Int64 // the number of the latest exchange with a ledger
	file     *file        // nil: the counters are in memory only
}

// lock fills a line of the processor's cache, so that neighbours don't share one.
type lock struct {
	sync.Mutex
	_ [56]byte
}

// Options configure a limiter.
type Options struct {
	// Path is the file of the state, which Open creates if it does not exist. A second
	// file next to it has the same name with "-2". Empty: the state is in memory only.
	Path string
	// Logger logs failures of the file and of ledgers. Default: nothing is logged.
	Logger *slog.Logger
	// Crossed, if set, is called once per window with 80 when a subject has used 80
	// percent of a ceiling. It is called once with 100 when the subject has used all of
	// it, or a call is refused because too little is left. Amounts that are only set
	// aside do not count, nor do ceilings of calls in flight. The goroutine of the call
	// calls it, without holding a lock.
	Crossed func(workspace string, standing Standing, percent int)
	// MaxMemory bounds the memory of all subjects with their own counters, in bytes.
	// Default: MaxMemory.
	MaxMemory int64
	// Background makes Open return at once and read the file in a goroutine. Until the
	// file is read, a reservation waits for up to a second, and is then refused.
	Background bool
}

// Open returns a limiter with the state of its file. If the file can't be used, the
// limiter counts in memory and tries again; Err returns the reason.
func Open(o Options) *Limiter { return openOn(o, journal.Options{}) }

func openOn(o Options, j journal.Options) *Limiter {
	l := &Limiter{crossed: o.Crossed, seed: maphash.MakeSeed(), process: rand.Text()}
	l.maxBytes.Store(cmp.Or(o.MaxMemory, MaxMemory))
	l.books.Store(&map[bookName]*book{})
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l.logger = o.Logger
	if o.Path != "" {
		l.file = openFile(l, o.Path, o.Logger, j)
		if !o.Background {
			<-l.file.journal.Loaded()
		}
	}
	return l
}

// SetMaxMemory changes the memory bound of subjects, in bytes. Subjects that have their
// own counters keep them.
func (l *Limiter) SetMaxMemory(bytes int64) { l.maxBytes.Store(bytes) }

// Close returns unused leases to the ledgers, writes the pending changes and closes the
// file. Amounts set aside for calls that still run count in full when the file is opened
// again.
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
	return l.file.journal.Close(false)
}

// Err returns the reason why the file lacks counts; nil if it is up to date. These counts
// are lost if the process ends before the file can be written again.
func (l *Limiter) Err() error {
	if l.file == nil {
		return nil
	}
	return l.file.failure()
}

// Stats are counts since the limiter was opened.
type Stats struct {
	// Subjects counts the subjects that have their own counters now.
	Subjects int
	// Shared counts the calls that were counted under Others, because Options.MaxMemory
	// was reached.
	Shared int64
	// Exceeded counts the settlements that raised a counter above its ceiling: the call
	// used more than was set aside for it.
	Exceeded int64
	// Crashed counts the calls that were running when the previous process ended, once
	// for each of their limits.
	Crashed int64
	// Damaged counts the damaged places of the file, which were skipped.
	Damaged int64
}

// Stats returns the limiter's counts of its own work.
func (l *Limiter) Stats() Stats {
	s := Stats{Subjects: int(l.subjects.Load()), Shared: l.shared.Load(), Exceeded: l.exceeded.Load()}
	if l.file != nil {
		l.file.mu.Lock()
		s.Crashed, s.Damaged = l.file.crashed, int64(l.file.journal.Damaged())
		l.file.mu.Unlock()
	}
	return s
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

// Reserve sets want aside for a call in the counters of all asks. If one of their ceilings
// is too full, Reserve sets nothing aside and returns that ceiling in the refusal. It
// counts the call as in flight. An amount of zero always fits. If several asks name the
// same subject of the same limit, the first one counts.
func (l *Limiter) Reserve(workspace string, now time.Time, asks []Ask, want Amounts) (*Reservation, *Refusal) {
	r := new(Reservation)
	if refusal := l.ReserveInto(r, workspace, now, asks, want); refusal != nil {
		return nil, refusal
	}
	return r, nil
}

// ReserveInto is like Reserve but uses the caller's reservation and does not allocate. The
// reservation must be new or settled, and must not be copied.
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
		refusal, tell, answer := l.reserve(r, &wait, at.UnixNano(), asks, want)
		if answer == nil || !wait.until(r.Context, l, answer) {
			l.tell(tell)
			return refusal
		}
	}
}

// reserve tries to set want aside once. If the answer of a ledger may help, it returns
// a channel that is closed when the ledger has answered.
func (l *Limiter) reserve(r *Reservation, wait *waiting, at int64, asks []Ask, want Amounts) (refusal *Refusal, tell []crossing, answer <-chan struct{}) {
	held := r.enter(at)
	refusal, tell = held.check(at, asks, want)
	if refusal == nil {
		held.take(want)
		held.write(at)
	} else {
		answer = held.answer(wait, want)
		held.leave()
	}
	held.release()
	if refusal == nil {
		r.wait()
	}
	return refusal, tell, answer
}
