package sinks

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// The pauses after failures double between these. Each is shortened at random,
	// so that the gateways of a fleet do not all come back at one moment.
	minPause = 500 * time.Millisecond
	maxPause = 30 * time.Second

	// eraseTimeouts is the factor of the timeout of a delivery that erases: it may
	// read a whole table.
	eraseTimeouts = 10

	// maxTimeout bounds the timeout of a Resume that took too long before, and of a
	// delivery that did and can't be made smaller.
	maxTimeout = time.Hour

	// advanceTimeout bounds how long the store may take to move a position: a
	// drain that is cancelled must end, but not forget the rows that the sink
	// took.
	advanceTimeout = 10 * time.Second

	// quietFailures is how often the store may fail in a row before the drain logs
	// it: the store may not be open yet at a start, or be replaced.
	quietFailures = 4

	// The intervals at which the drain counts the waiting rows: at work, and while it can
	// deliver nothing.
	measureEvery     = time.Second
	measureWhileDown = 5 * time.Second

	limitGrowth      = 4 // a full delivery in time makes the next a quarter larger
	finishRetryPause = 200 * time.Millisecond
)

// loop is the state of the drain's goroutine.
type loop struct {
	*Drain
	box      outbox // nil: not open
	resumed  bool
	at       trace.Position // while resumed: the store's position of the sink
	limit    int            // rows of the next delivery
	patience int            // how many times the next delivery's timeout is doubled
	resuming int            // and the next Resume's
	failures int            // in a row
	failing  time.Time      // since when
	logged   bool           // the failures were
	measured time.Time
}

func (d *Drain) run() {
	defer close(d.done)
	defer d.cancel()
	defer func() {
		if err := d.config.Sink.Close(); err != nil {
			d.config.Logger.Error("closing a sink", "sink", d.config.Name, "error", err)
		}
	}()
	if !d.takeTurn() {
		return
	}
	defer d.endTurn()
	l := &loop{Drain: d, limit: d.config.Batch}
	defer l.closeBox()
	for !l.isStopped() {
		finishing := l.isFinishing() // before the look: earlier rows are seen
		pending, err := l.step()
		switch {
		case err != nil:
			if l.isStopped() {
				return
			}
			l.fail(err)
			l.pause(finishing)
		case pending:
			l.succeed()
		default:
			l.succeed()
			l.measure(l.ctx, 0)
			if finishing {
				l.mu.Lock()
				l.drained = true
				l.mu.Unlock()
				return
			}
			l.idle()
		}
	}
}

// step does one thing: it opens the store, or makes the next delivery. It reports
// whether there was something to do.
func (l *loop) step() (pending bool, err error) {
	if l.box == nil {
		box, err := l.open(l.ctx)
		if err != nil {
			return false, fmt.Errorf("opening the trace store: %w", err)
		}
		l.box, l.resumed = box, false
	}
	pending, err = l.deliver()
	if err != nil && errors.Is(err, errStore) {
		l.closeBox()
	}
	return pending, err
}

// errStore is wrapped by errors of the store, and not of the sink.
var errStore = errors.New("reading the trace store")

func storeError(err error) error { return fmt.Errorf("%w: %w", errStore, err) }

// deliver takes the next delivery from the store to the sink.
func (l *loop) deliver() (pending bool, err error) {
	kept, err := l.box.Position(l.ctx)
	if err != nil {
		return false, storeError(err)
	}
	if !l.resumed || kept != l.at {
		if err := l.resume(kept); err != nil {
			return false, err
		}
	}
	next, err := l.box.Next(l.ctx, l.at, l.limit)
	if err != nil {
		return false, storeError(err)
	}
	if next == nil {
		return false, nil
	}
	timeout := l.timeout(next)
	if err := l.call(timeout, func(ctx context.Context) error { return l.config.Sink.Deliver(ctx, next) }); err != nil {
		l.resumed = false
		if errors.Is(err, context.DeadlineExceeded) {
			l.tookTooLong(next, timeout)
		}
		return false, err
	}
	l.patience = 0
	l.delivered.Add(uint64(next.Len()))
	if next.Len() >= l.limit {
		l.limit = min(l.config.Batch, l.limit+l.limit/limitGrowth+1)
	}
	return true, l.advance(next.Position)
}

// timeout returns how long a delivery may take.
func (l *loop) timeout(d *trace.Delivery) time.Duration {
	timeout := l.config.Timeout
	if len(d.Erasures) > 0 {
		timeout *= eraseTimeouts
	}
	return min(timeout<<l.patience, max(timeout, maxTimeout))
}

// tookTooLong makes the next delivery smaller. One row or an erasure, which can't
// be smaller, gets more time instead: otherwise it would block all later rows.
func (l *loop) tookTooLong(d *trace.Delivery, timeout time.Duration) {
	l.limit = max(1, min(l.limit, d.Len())/2)
	if (d.Len() <= 1 || len(d.Erasures) > 0) && timeout < maxTimeout {
		l.patience++
	}
}

// resume asks the sink how far it is, and moves the store's position there.
func (l *loop) resume(kept trace.Position) error {
	l.resumed = false
	source := Source{StoreID: l.box.StoreID(), Workspace: l.config.Workspace, Sink: l.config.Name}
	timeout := min(l.config.Timeout<<l.resuming, max(l.config.Timeout, maxTimeout))
	var from trace.Position
	late := false
	err := l.call(timeout, func(ctx context.Context) (err error) {
		from, err = l.config.Sink.Resume(ctx, source, kept)
		late = ctx.Err() != nil
		return err
	})
	if err != nil {
		// The sink may have tables to change: with no more time, it would never
		// finish.
		if late && timeout < maxTimeout {
			l.resuming++
		}
		return err
	}
	l.at, l.resumed, l.resuming = kept, true, 0
	if from = from.Min(kept); from != kept {
		return l.advance(from)
	}
	return nil
}

// advance moves the position in the store. It is no failure if another process
// moved it: the next step begins from there. advance also moves it when the drain
// is cancelled: otherwise rows that the sink has taken would be delivered again.
func (l *loop) advance(to trace.Position) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), advanceTimeout)
	defer cancel()
	err := l.box.Advance(ctx, l.at, to)
	switch {
	case errors.Is(err, trace.ErrMoved):
		l.resumed = false
		return nil
	case err != nil:
		l.resumed = false
		return storeError(err)
	}
	l.at = to
	return nil
}

// call calls the sink. A panic counts as a failure, and so does a call that took
// too long, also if the sink returns nil.
func (l *loop) call(timeout time.Duration, sink func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(l.ctx, timeout)
	defer cancel()
	defer l.watch()()
	defer func() {
		if cause := recover(); cause != nil {
			l.config.Logger.Error("a sink panicked", "sink", l.config.Name, "panic", cause, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic in the sink: %v", cause)
		}
	}()
	err = sink(ctx)
	if late := ctx.Err(); err != nil && errors.Is(late, context.DeadlineExceeded) && !errors.Is(err, late) {
		err = fmt.Errorf("%w: %w", late, err)
	}
	return err
}

// watch keeps the drain's Stats up to date while a call is under way, however long
// that takes. The function that it returns ends the watch.
func (l *loop) watch() (end func()) {
	ctx, cancel := context.WithCancel(l.ctx)
	l.setCalled(time.Now())
	var counting sync.WaitGroup
	counting.Go(func() {
		ticker := time.NewTicker(measureEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				l.measure(ctx, 0)
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		counting.Wait() // the store may be closed next
		l.setCalled(time.Time{})
	}
}

func (l *loop) setCalled(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.called = at
}

// fail notes a failure, and logs the first one in a row.
func (l *loop) fail(err error) {
	if l.failures++; l.failures == 1 {
		l.failing = time.Now()
	}
	l.failed.Add(1)
	first := !l.logged && (l.box != nil || l.failures > quietFailures)
	l.logged = l.logged || first
	l.mu.Lock()
	l.state.Up, l.state.LastError = false, err.Error()
	if l.logged {
		l.state.DownSince = l.failing
	}
	l.mu.Unlock()
	if !first {
		return
	}
	l.config.Logger.Error("traces and metrics are not delivered to a sink, and wait in the store; trying again",
		"sink", l.config.Name, "error", err)
}

// succeed notes that something worked.
func (l *loop) succeed() {
	if l.failures == 0 {
		l.measure(l.ctx, measureEvery)
	} else {
		l.measure(l.ctx, 0)
	}
	l.failures = 0
	if l.logged {
		l.logged = false
		l.mu.Lock()
		rows := l.state.Pending
		l.mu.Unlock()
		// Who sees the sink up finds this in the log.
		l.config.Logger.Info("traces and metrics are being delivered again", "sink", l.config.Name, "waiting", rows)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Up, l.state.LastError, l.state.DownSince = true, "", time.Time{}
}

// measure counts the waiting rows, unless that was done less than every ago.
func (l *loop) measure(ctx context.Context, every time.Duration) {
	if l.box == nil || time.Since(l.measured) < every {
		return
	}
	rows, oldest, err := l.box.Pending(ctx)
	if err != nil {
		return // the next step sees it
	}
	l.measured = time.Now()
	l.mu.Lock()
	l.state.Pending, l.oldest = rows, oldest
	l.mu.Unlock()
}

// idle returns when there may be something to do.
func (l *loop) idle() {
	timer := time.NewTimer(l.config.Poll)
	defer timer.Stop()
	select {
	case <-l.wake:
	case <-timer.C:
	case <-l.stop:
	case <-l.finish:
	}
}

// pause waits after a failure, and counts the waiting rows meanwhile. A call of Finish
// ends the pause at once. After Finish the pauses are short.
func (l *loop) pause(finishing bool) {
	length := min(minPause<<min(l.failures-1, 16), maxPause)
	finish := l.finish
	if finishing {
		length, finish = min(length, finishRetryPause), nil
	}
	for left := length/2 + rand.N(length/2); left > 0; left -= measureWhileDown {
		timer := time.NewTimer(min(left, measureWhileDown))
		select {
		case <-timer.C:
			l.measure(l.ctx, 0)
			continue
		case <-l.stop:
		case <-finish:
		}
		timer.Stop()
		return
	}
}

func (l *loop) closeBox() {
	if l.box != nil {
		_ = l.box.Close() // it only read, and the write of Advance is committed
		l.box, l.resumed = nil, false
	}
}

func (l *loop) isStopped() bool { return isClosed(l.stop) || l.ctx.Err() != nil }

func (l *loop) isFinishing() bool { return isClosed(l.finish) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
