package recorder

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// The pauses after failures double between these.
	minRetryPause = 100 * time.Millisecond
	maxRetryPause = 2 * time.Second

	// How often the store is maintained, and the pause between the steps of
	// one maintenance.
	maintainEvery = time.Minute
	maintainPause = 20 * time.Millisecond
)

var errPanic = errors.New("panic")

// writer is the state of the recorder's goroutine. It keeps a batch that failed,
// and tries it again before it takes another.
type writer struct {
	*Recorder
	batch    Batch
	durable  []*waitingDurable
	ids      []trace.ID      // of the batch
	sizes    []int64         // of the start records of these
	failures int             // in a row
	replaced bool            // another store follows, and metrics and replies wait for it
	reopened bool            // a store was open before
	broken   <-chan struct{} // of the store that is open
	flushAt  time.Time       // when the waiting records must be written
	timer    *time.Timer

	logged   string    // the last error logged; empty once the log has the recovery
	loggedAt time.Time // when an error was logged last
}

// run is the recorder's goroutine. It logs a panic and goes on: otherwise metrics
// would be refused from then on, and no log would have the reason.
func (r *Recorder) run() {
	defer close(r.done)
	defer r.cancel()
	w := &writer{Recorder: r, timer: time.NewTimer(time.Hour)}
	defer w.timer.Stop()
	if w.options.Calls != "" {
		w.calls.Open()
	}
	if lost := w.calls.Lost(); lost > 0 {
		w.options.Logger.Warn("the process had ended during upstream calls; their traces are marked as interrupted", "count", lost)
	}
	for !w.runUntilPanic() {
		w.refuseTaken(errPanic)
		w.dropBatch()
		if w.isClosing() {
			break
		}
		w.failures++
		w.pause(w.retryPause())
	}
	w.dropAll()
	if err := w.calls.Close(); err != nil {
		w.options.Logger.Error("closing the file of start records", "error", err)
	}
}

// runUntilPanic returns true when the recorder has closed.
func (w *writer) runUntilPanic() (ended bool) {
	defer func() {
		if cause := recover(); cause != nil {
			w.counters.panics.Add(1)
			w.setState(Failing, fmt.Errorf("%w: %v", errPanic, cause))
			w.options.Logger.Error("the trace recorder panicked and goes on", "panic", cause, "stack", string(debug.Stack()))
		}
	}()
	for {
		store := w.openStore()
		if store == nil {
			return true
		}
		reopen := w.serveAndClose(store)
		if !reopen {
			return true
		}
		w.setState(Opening, nil)
		if !w.replaced {
			w.pause(w.retryPause())
		}
	}
}

// serveAndClose closes the store whatever happens.
func (w *writer) serveAndClose(store Store) (reopen bool) {
	w.open.set(store)
	defer func() {
		w.open.set(nil)
		if err := store.Close(); err != nil {
			w.options.Logger.Error("closing the trace store", "error", err)
		}
	}()
	return w.serve(store)
}

// openStore opens the store, however long it takes. It returns nil when the
// recorder must end: it closes and nothing waits, or a try after Close failed.
func (w *writer) openStore() Store {
	for pause := minRetryPause; ; pause = min(2*pause, maxRetryPause) {
		last := w.isClosing()
		if last && w.idle() || w.ctx.Err() != nil {
			return nil
		}
		store, err := w.tryOpen()
		if err == nil {
			w.setState(Available, nil)
			if !w.reopened {
				close(w.ready) // not sooner: who has the key may report
			}
			w.keepServed()
			return store
		}
		w.replaced = false
		w.setState(Opening, err)
		w.refuseTaken(err)
		if last {
			return nil
		}
		w.pause(pause)
	}
}

// keepServed has the served revisions and experiments stored again if this is not the first store:
// it may be a new one that replaces a damaged or deleted one.
func (w *writer) keepServed() {
	q := &w.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.reopened {
		q.revisions.again()
		q.experiments.again()
		w.Forget()
	}
	w.reopened = true
}

func (w *writer) tryOpen() (Store, error) {
	store, err := w.options.Open(w.ctx)
	if err != nil {
		return nil, fmt.Errorf("opening the trace store: %w", err)
	}
	if w.reopened {
		return store, nil // callers hold ids that were made under the first key
	}
	if w.key, err = store.TraceKey(w.ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("reading the trace key: %w", err), store.Close())
	}
	return store, nil
}

// serve writes to the store until it is broken or the recorder has closed. It
// reports whether the store must be opened again.
func (w *writer) serve(store Store) (reopen bool) {
	maintainAt := time.Now()
	w.broken = store.Broken()
	for w.ctx.Err() == nil {
		// Also while commits fail: deleting frees space on a full disk.
		if now := time.Now(); !now.Before(maintainAt) || w.isBroken() {
			pause, err := w.maintain(store, now)
			if err != nil {
				return w.mayReopen()
			}
			maintainAt = now.Add(pause)
		}
		if w.batch.Len() == 0 {
			if !w.next(maintainAt) {
				return false
			}
			if w.batch.Len() == 0 {
				continue
			}
		}
		err := w.commit(store)
		if err == nil {
			continue
		}
		if errors.Is(err, errPanic) {
			w.dropBatch() // the store may panic on it
			return true
		}
		if errors.Is(err, ErrBroken) {
			return w.mayReopen()
		}
		last := w.isClosing()
		w.pause(w.retryPause())
		if last {
			return false
		}
		if w.batch.Len() == 0 {
			w.probe() // only metrics and replies can show whether it works again
		}
	}
	return false
}

// mayReopen reports whether a broken store must be opened again. A recorder that
// closes tries it once.
func (w *writer) mayReopen() bool { return !w.isClosing() || w.failures <= 1 }

// next takes the next batch, or waits for one and leaves the batch empty. It
// returns false when the recorder closes and nothing waits.
func (w *writer) next(maintainAt time.Time) bool {
	now := time.Now()
	level, closing := w.queue.urgency()
	if w.calls.Lost() > 0 {
		level = urgent
	}
	until := maintainAt
	switch {
	case level == empty && closing:
		return false
	case level == empty:
		w.flushAt = time.Time{}
	case level == lazy && !closing:
		if w.flushAt.IsZero() {
			w.flushAt = now.Add(w.options.FlushInterval)
		}
		if !now.Before(w.flushAt) {
			until = now
		} else if w.flushAt.Before(until) {
			until = w.flushAt
		}
	default:
		until = now
	}
	if until.After(now) {
		w.wait(until.Sub(now))
		return true
	}
	w.flushAt = time.Time{}
	// The first report wakes the writer before others that have arrived have run. On
	// one processor, where little runs during a short sync, each would have a commit
	// to itself.
	runtime.Gosched()
	w.queue.take(&w.batch, &w.durable)
	for _, r := range w.batch.Records {
		r.SealAs(r.State)
	}
	w.batch.Interrupted = append(w.batch.Interrupted, w.calls.Interrupted(maxBatch, maxBatchBytes)...)
	if len(w.batch.Interrupted) == 0 {
		w.calls.Forget() // calls that can't be read
	}
	return true
}

// maintain does one step of housekeeping and returns the pause until the next
// step. It fails only when the store is broken.
func (w *writer) maintain(store Store, now time.Time) (time.Duration, error) {
	more, err := store.Maintain(w.ctx, now)
	switch {
	case errors.Is(err, ErrBroken):
		w.fail(err)
		return 0, err
	case err != nil && w.ctx.Err() == nil:
		w.options.Logger.Error("maintaining the trace store", "error", err)
	case more:
		return maintainPause, nil
	}
	w.logLosses()
	return maintainEvery, nil
}

// fail notes that the store failed. It refuses metrics and replies at once, unless
// another store takes the place of this one: then they wait for it, once.
func (w *writer) fail(err error) {
	w.failures++
	if w.replaced = !w.replaced && errors.Is(err, ErrReplaced); w.replaced {
		w.setState(Opening, err)
		return
	}
	w.setState(Failing, err)
	w.refuseTaken(err)
}

// commit commits the batch and answers its senders. When it fails, it refuses the
// metrics and replies at once and keeps the records of the batch. It keeps all of
// the batch if another store replaces this one.
func (w *writer) commit(store Store) error {
	size, durable := w.batch.Len(), w.batch.Durable()
	began := time.Now()
	err := w.tryCommit(store)
	duration := time.Since(began)
	if w.options.OnCommit != nil {
		w.options.OnCommit(Commit{Duration: duration, Len: size, Durable: durable, Err: err})
	}
	if err != nil {
		w.counters.commitFailures.Add(1)
		w.fail(err)
		return err
	}
	w.failures, w.replaced = 0, false
	w.counters.commits.Add(1)
	w.counters.commitNanos.Add(uint64(duration))
	w.counters.stored.Add(uint64(size))
	w.setState(Available, nil)
	for _, d := range w.durable {
		d.result <- nil
	}
	w.endCalls()
	w.clearBatch()
	return nil
}

func (w *writer) tryCommit(store Store) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			w.counters.panics.Add(1)
			w.options.Logger.Error("the trace store panicked", "panic", cause, "stack", string(debug.Stack()))
			err = fmt.Errorf("%w in the store: %v", errPanic, cause)
		}
	}()
	// Not the writer's context: Close must not cut off a commit that began.
	return store.Commit(context.Background(), &w.batch)
}

// logAgain is the time until another error is logged. A disk that is full fails in several
// ways by turns, and some commits fit in between.
const logAgain = time.Minute

// setState publishes the recorder's state and logs its changes. A nil error does
// not clear the last one unless the state is Available.
func (w *writer) setState(state Availability, err error) {
	q := &w.queue
	q.mu.Lock()
	if (state == Available) != (q.state == Available) {
		q.since = time.Now()
	}
	q.state, q.probing = state, state == Opening && w.replaced
	if err != nil || state == Available {
		q.lastError = err
	}
	q.mu.Unlock()
	switch {
	case err != nil && err.Error() != w.logged && time.Since(w.loggedAt) >= logAgain:
		w.logged, w.loggedAt = err.Error(), time.Now()
		w.options.Logger.Error("traces and metrics are not stored; trying again", "error", err)
	case state == Available && w.logged != "":
		w.logged = ""
		w.options.Logger.Info("traces and metrics are being stored again")
	}
}

// probe admits metrics and replies although the last commit failed.
func (w *writer) probe() {
	w.queue.mu.Lock()
	w.queue.probing = true
	w.queue.mu.Unlock()
}

func (w *writer) retryPause() time.Duration {
	if w.failures == 0 {
		return 0
	}
	return min(minRetryPause<<min(w.failures-1, 16), maxRetryPause)
}

func (w *writer) isClosing() bool { return isClosed(w.closing) }

func (w *writer) isBroken() bool { return isClosed(w.broken) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (w *writer) idle() bool {
	w.queue.mu.Lock()
	defer w.queue.mu.Unlock()
	return w.batch.Len() == 0 && w.queue.queued() == 0 && !w.queue.counts.some.Load()
}

// wait returns when an item came, the store is broken, the recorder closes or d is
// over.
func (w *writer) wait(d time.Duration) {
	w.timer.Reset(d)
	select {
	case <-w.wake:
	case <-w.broken:
	case <-w.timer.C:
	case <-w.closing:
	}
}

// pause returns when d is over or the recorder closes.
func (w *writer) pause(d time.Duration) {
	w.timer.Reset(d)
	select {
	case <-w.timer.C:
	case <-w.closing:
	}
}
