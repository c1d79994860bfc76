package recorder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder/calls"
	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// MaxRecordSize bounds one record, in bytes. A larger one is stored without
	// its content and, if that is not enough, dropped and counted.
	MaxRecordSize = 16 << 20

	// maxDurableWait bounds how long metrics and replies wait for their commit.
	maxDurableWait = 10 * time.Second
)

var errTooLong = errors.New("the store takes too long")

// Options configure a recorder. Open is required. The zero value of each of the
// others means its default.
type Options struct {
	// Open opens the store. The recorder calls it again, with pauses, until it
	// works, and whenever the store turns out to be broken.
	Open func(context.Context) (Store, error)

	// Calls is the path of the store: the start records of calls are in a file
	// next to it. If it is empty, Start keeps none.
	Calls string

	Logger *slog.Logger // default: none

	// The ceilings of the queue. At them the recorder drops and counts records,
	// and refuses metrics. Replies count as metrics. Half of each ceiling is divided
	// among the workspaces that joined; any workspace may use the other half.
	MaxRecords int   // default: 16384
	MaxMetrics int   // default: 4096
	MaxBytes   int64 // for records and for metrics each; default: 64 MiB
	MaxCalls   int64 // bytes of start records; default and maximum: calls.MaxBytes

	// FlushInterval is how long records may wait for others. A crash can lose the
	// records of this time. Default: 250 ms.
	FlushInterval time.Duration

	// OnCommit is called after every commit, in the writer's goroutine.
	OnCommit func(Commit)

	// OnStart is called with every start, in its caller's goroutine.
	OnStart func()
}

// Recorder takes records and metrics to a store: a bounded queue, one writer,
// one transaction for all that waits. All methods may be called concurrently.
type Recorder struct {
	options Options
	queue   queue
	calls   *calls.File
	open    openStore
	wake    chan struct{} // the writer has something to look at

	opening sync.Once
	ready   chan struct{} // closed when the trace key is known
	key     []byte        // set before ready is closed
	done    chan struct{} // closed when the writer has ended
	ctx     context.Context
	cancel  context.CancelFunc // makes the writer give up
	closing chan struct{}
	closed  sync.Once

	counters counters
	epoch    atomic.Uint64
}

// openStore holds the store while it is open, for readers.
type openStore struct {
	sync.RWMutex
	store Store
}

// set swaps the store after readers have left. Pass nil before closing the store.
func (o *openStore) set(store Store) {
	o.Lock()
	defer o.Unlock()
	o.store = store
}

// counters are the parts of Stats that only grow.
type counters struct {
	commits, commitFailures, commitNanos, stored atomic.Uint64
	metricsRejected, lateStarts, panics          atomic.Uint64
	contentLeftOut                               atomic.Uint64
}

// New returns a recorder that does nothing yet: records wait in its
// queue, and metrics are refused, until Open.
func New(options Options) *Recorder {
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	if options.MaxRecords <= 0 {
		options.MaxRecords = 16384
	}
	if options.MaxMetrics <= 0 {
		options.MaxMetrics = 4096
	}
	if options.MaxBytes <= 0 {
		options.MaxBytes = 64 << 20
	}
	if options.MaxCalls <= 0 {
		options.MaxCalls = calls.MaxBytes
	}
	if options.FlushInterval <= 0 {
		options.FlushInterval = 250 * time.Millisecond
	}
	r := &Recorder{
		options: options,
		calls:   calls.New(options.Calls, options.Logger),
		wake:    make(chan struct{}, 1),
		ready:   make(chan struct{}),
		done:    make(chan struct{}),
		closing: make(chan struct{}),
	}
	r.queue.shares = shares{byWorkspace: make(map[string]*share), max: [resources]int64{
		callBytes: options.MaxCalls, recordCount: int64(options.MaxRecords), versionCount: int64(options.MaxRecords),
		recordBytes: options.MaxBytes, durableCount: int64(options.MaxMetrics), durableBytes: options.MaxBytes,
	}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.Forget()
	return r
}

// Open begins to open the store, in the background, and to write. It returns at
// once; further calls do nothing. Metrics that come while the store is first
// being opened wait for it.
func (r *Recorder) Open() {
	r.opening.Do(func() {
		r.queue.mu.Lock()
		r.queue.probing, r.queue.since = true, time.Now()
		r.queue.mu.Unlock()
		go r.run()
	})
}

// TraceKey returns the key that the store keeps. It waits for the store until ctx
// is done, and then fails with ErrUnavailable.
func (r *Recorder) TraceKey(ctx context.Context) ([]byte, error) {
	select {
	case <-r.ready:
		return r.key, nil
	default:
	}
	select {
	case <-r.ready:
		return r.key, nil
	case <-ctx.Done():
	case <-r.done:
	}
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()
	return nil, unavailable(r.queue.lastError)
}

// unavailable returns the error that callers see, with its cause if known.
func unavailable(cause error) error {
	if cause == nil {
		return ErrUnavailable
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, cause)
}

// Evaluation records an answer that is complete. It never blocks, and owns record
// from then on. It reports whether the record was taken; one that was not is
// counted as lost.
func (r *Recorder) Evaluation(record *trace.Record) bool {
	record.State = trace.StateEnded
	return r.push(record, r.bound(record, MaxRecordSize, false), false)
}

// End records how an upstream call ended. It is Evaluation with a ceiling of
// the queue that is a quarter higher: the ends of calls whose start is stored
// are worth more than evaluations.
func (r *Recorder) End(record *trace.Record) bool {
	record.State = trace.StateEnded
	return r.push(record, r.bound(record, MaxRecordSize, false), true)
}

// push queues a record of size bytes. extra raises the queue's ceiling by a
// quarter.
func (r *Recorder) push(record *trace.Record, size int, extra bool) bool {
	if size > MaxRecordSize {
		r.lose(record.Workspace, lostTooLarge, 1)
		r.loseEnd(record)
		trace.ReleaseRecord(record)
		return false
	}
	q := &r.queue
	q.mu.Lock()
	p := place{share: q.shares.share(record.Workspace), size: int64(size)}
	if q.closing || !q.admits(p, recordCount, extra) {
		why := q.whyLost()
		due := p.share.lose(why, 1)
		q.mu.Unlock()
		r.logLoss(record.Workspace, why, due)
		r.loseEnd(record)
		trace.ReleaseRecord(record)
		return false
	}
	q.records = append(q.records, waitingRecord{p, record})
	q.pushed++
	q.takeUp(p, recordCount)
	// The writer looks at the first record, to wait for others, and at a full
	// batch. The records in between need not wake it.
	waiting := len(q.records)
	wake := waiting == 1 || waiting == maxBatch || q.bytes >= maxBatchBytes
	q.mu.Unlock()
	if wake {
		r.signal()
	}
	return true
}

// whyLost returns why the queue takes nothing.
func (q *queue) whyLost() lossReason {
	if q.closing {
		return lostClosed
	}
	return lostQueueFull
}

func (r *Recorder) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Start records that an upstream call is about to be made. record stays the
// caller's. It returns true when the record is with the operating system. It waits
// for that at most 20 ms. It then returns false and counts a late start, and the
// call goes on; the record may still be written later.
func (r *Recorder) Start(ctx context.Context, record *trace.Record) bool {
	if record.Size() > MaxRecordSize {
		bounded := trace.AcquireRecord()
		defer trace.ReleaseRecord(bounded)
		bounded.CopyFrom(record)
		record = bounded
		if r.bound(record, MaxRecordSize, false) > MaxRecordSize {
			r.lose(record.Workspace, lostTooLarge, 1)
			return false
		}
	}
	record.SealAs(trace.StateInterrupted) // which it is stored as, unless it ends
	call := calls.NewCall(record)
	q := &r.queue
	q.mu.Lock()
	sh := q.shares.share(record.Workspace)
	if q.closing || !q.shares.admits(sh, callBytes, call.Size(), false) {
		why := q.whyLost()
		due := sh.lose(why, 1)
		q.mu.Unlock()
		r.logLoss(record.Workspace, why, due)
		return false
	}
	q.shares.add(sh, callBytes, call.Size())
	q.mu.Unlock()

	size := call.Size()
	written, kept := r.calls.Start(ctx, call)
	if !kept {
		q.mu.Lock()
		q.shares.add(sh, callBytes, -size)
		q.mu.Unlock()
		r.lose(record.Workspace, lostQueueFull, 1)
	}
	if !written {
		r.counters.lateStarts.Add(1)
		r.signal()
	}
	if r.options.OnStart != nil {
		r.options.OnStart()
	}
	return written
}

// Metrics stores metrics. It returns nil only after a commit on stable storage
// that holds them, and never drops them silently: its error wraps ErrUnavailable
// or is ctx's error. Metrics that failed may still be stored if ctx ended, or the
// wait of at most 10 s was over, during their commit.
//
// Metrics with a reply are stored once for its key, however often they are
// reported. If Metrics returns nil and m.Reply.Earlier is set, they had been
// stored before, with that reply. m is the caller's again when Metrics returns, but what
// its pointers lead to must not change.
func (r *Recorder) Metrics(ctx context.Context, m *trace.Metrics) error {
	return r.AllMetrics(ctx, []*trace.Metrics{m})
}

// AllMetrics stores metrics as Metrics does, all in one commit or none. Those with an event
// id that is stored become Repeated. There must be one at least, all of one workspace.
func (r *Recorder) AllMetrics(ctx context.Context, all []*trace.Metrics) error {
	w := &waitingDurable{metrics: make([]*trace.Metrics, len(all)), result: make(chan error, 1)}
	for i, m := range all {
		w.metrics[i] = cloneMetrics(m)
	}
	err := r.store(ctx, w)
	for i, m := range all {
		if err != nil {
			break
		}
		m.Repeated = w.metrics[i].Repeated
		if m.Reply != nil {
			m.Reply.Earlier = w.metrics[i].Reply.Earlier
		}
	}
	if errors.Is(err, ErrUnavailable) {
		r.counters.metricsRejected.Add(1)
	}
	return err
}

// store waits for the commit of w.
func (r *Recorder) store(ctx context.Context, w *waitingDurable) error {
	if err := r.pushDurable(w); err != nil {
		return err
	}
	r.signal()
	timer := time.NewTimer(maxDurableWait)
	defer timer.Stop()
	select {
	case err := <-w.result:
		return err
	case <-ctx.Done():
		return r.abandon(w, ctx.Err())
	case <-timer.C:
		return r.abandon(w, unavailable(errTooLong))
	}
}

func (r *Recorder) pushDurable(w *waitingDurable) error {
	workspace, size := w.measure()
	q := &r.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.refusal(); err != nil {
		return err
	}
	w.place = place{share: q.shares.share(workspace), size: int64(size)}
	if !q.shares.admits(w.share, durableCount, w.count(), false) || !q.shares.admits(w.share, durableBytes, w.size, false) {
		return unavailable(errors.New("too many metrics wait"))
	}
	q.durable = append(q.durable, w)
	q.durableBytes += w.size
	q.shares.add(w.share, durableCount, w.count())
	q.shares.add(w.share, durableBytes, w.size)
	return nil
}

// abandon stops waiting for w and returns cause, or the result of w if there is
// one by now.
func (r *Recorder) abandon(w *waitingDurable, cause error) error {
	r.queue.mu.Lock()
	w.abandoned = true
	r.queue.mu.Unlock()
	select {
	case err := <-w.result:
		return err
	default:
		return cause
	}
}

// flushLook is the interval at which Flush looks.
const flushLook = 5 * time.Millisecond

// Flush waits until all evaluations, ends of calls, refusals and counts that were recorded before
// are stored or lost. It returns the error of ctx if ctx is done first.
func (r *Recorder) Flush(ctx context.Context) error {
	q := &r.queue
	q.mu.Lock()
	// The writer takes all refusals and peaks that wait with its next batch, and all counts
	// with the last of the records.
	last, settled := q.pushed+uint64(q.refusals.waiting()+len(q.peaks)), q.settled
	if q.counts.some.Load() {
		last++
	}
	q.mu.Unlock()
	for settled < last {
		select {
		case <-time.After(flushLook):
		case <-ctx.Done():
			return ctx.Err()
		}
		q.mu.Lock()
		settled = q.settled
		q.mu.Unlock()
	}
	return nil
}

// Versions records versions of definitions in the background. It keeps the
// contents, which must not change after the call. The store keeps each version
// once.
func (r *Recorder) Versions(versions []trace.Version) {
	now := time.Now()
	q := &r.queue
	q.mu.Lock()
	why, dropped := q.whyLost(), make(map[string]uint64)
	for _, v := range versions {
		p := place{share: q.shares.share(v.Workspace), size: int64(versionSize(&v))}
		if q.closing || !q.admits(p, versionCount, false) {
			dropped[v.Workspace]++
			continue
		}
		if v.Time.IsZero() {
			v.Time = now
		}
		q.versions = append(q.versions, waitingVersion{p, v})
		q.takeUp(p, versionCount)
	}
	q.mu.Unlock()
	for workspace, count := range dropped {
		r.lose(workspace, why, count)
	}
	r.signal()
}

// Revision records in the background that a set of definitions is served. It keeps
// served, which must not change after the call. Of several that wait for the store, it
// stores the newest of each workspace and directory. A store that replaces another
// gets it too, until the workspace leaves.
func (r *Recorder) Revision(served *Revision) {
	q := &r.queue
	q.mu.Lock()
	same := func(other *Revision) bool {
		return other.Workspace == served.Workspace && other.Directory == served.Directory
	}
	if !q.closing {
		q.revisions.put(served, same)
	}
	q.mu.Unlock()
	r.signal()
}

// Experiments records in the background which experiments a workspace serves, as Revision
// does which set. Of several lists of a workspace that wait for the store, it stores the
// newest.
func (r *Recorder) Experiments(served *Experiments) {
	q := &r.queue
	q.mu.Lock()
	if !q.closing {
		q.experiments.put(served, func(other *Experiments) bool { return other.Workspace == served.Workspace })
	}
	q.mu.Unlock()
	r.signal()
}

// Close refuses further records, writes the queue and closes the store. When
// ctx is done or the store keeps failing, it drops, counts and logs the
// remaining records. Further calls wait for the first.
func (r *Recorder) Close(ctx context.Context) error {
	r.closed.Do(func() {
		r.queue.mu.Lock()
		r.queue.closing = true
		r.queue.mu.Unlock()
		close(r.closing)
	})
	r.Open() // to drain earlier items, or just to end
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		r.cancel()
		return ctx.Err()
	}
}

// Stats returns the recorder's account of itself.
func (r *Recorder) Stats() Stats {
	c := &r.counters
	stats := Stats{
		Commits:         c.commits.Load(),
		CommitFailures:  c.commitFailures.Load(),
		CommitTime:      time.Duration(c.commitNanos.Load()),
		Stored:          c.stored.Load(),
		MetricsRejected: c.metricsRejected.Load(),
		LateStarts:      c.lateStarts.Load(),
		Panics:          c.panics.Load(),
		ContentLeftOut:  c.contentLeftOut.Load(),
		Workspaces:      make(map[string]Drops),
	}
	q := &r.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	var lost [lossReasons]uint64
	for workspace, sh := range q.shares.byWorkspace {
		if sh.joins > 0 || sh.lost != ([lossReasons]uint64{}) {
			stats.Workspaces[workspace] = dropsOf(sh.lost)
		}
		for why := range lossReasons {
			lost[why] += sh.lost[why]
		}
	}
	stats.Drops = dropsOf(lost)
	stats.Availability, stats.Since = q.state, q.since
	stats.Queued = q.queued()
	stats.Joined = int(q.shares.joined)
	stats.QueuedBytes = q.bytes + q.durableBytes
	if q.lastError != nil {
		stats.LastError = q.lastError.Error()
	}
	return stats
}
