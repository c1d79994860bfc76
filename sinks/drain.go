package sinks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	defaultBatch   = 500
	defaultTimeout = 30 * time.Second
	defaultPoll    = 500 * time.Millisecond

	// cancelTimeout is how long a sink may take to end when its context is
	// done.
	cancelTimeout = 3 * time.Second
)

// Config configures a drain. Path, Workspace, Name and Sink are required. The
// zero value of each other field means its default.
type Config struct {
	Path      string // of the trace store's file
	Workspace string // whose rows are copied
	Name      string // of the sink within the workspace; the store keeps its position under it
	Sink      Sink
	Logger    *slog.Logger // default: none

	Batch int           // rows of a delivery; default: 500
	Poll  time.Duration // how often the store is looked into; default: 500 ms

	// Timeout bounds one delivery and one Resume; default: 30 s. A delivery that
	// erases may take ten times as long. The timeout of a Resume that took too
	// long, and of a delivery that did and can't be made smaller, doubles with each
	// try, up to an hour.
	Timeout time.Duration
}

// Drain copies a workspace's rows from the store to one sink, in the background,
// until it is stopped. After a failure it tries again. Its methods may be called
// concurrently.
//
// Drains of the same sink take turns, such as those before and after a reload of
// the configuration: one begins when the one before it has ended.
type Drain struct {
	config Config
	cursor string
	open   func(context.Context) (outbox, error)

	wake     chan struct{}
	stop     chan struct{} // closed: begin nothing more
	finish   chan struct{} // closed: end when nothing is pending
	stopOnce sync.Once
	finOnce  sync.Once
	done     chan struct{}
	ctx      context.Context // of the running operation
	cancel   context.CancelFunc

	mu      sync.Mutex
	state   Stats
	oldest  time.Time // of the rows that wait; zero: there is none
	called  time.Time // when the call to the sink began that is under way; zero: there is none
	drained bool      // it ended because nothing was pending

	delivered, failed atomic.Uint64
}

// outbox is the part of a [sqlite.Outbox] that a drain uses. A test of its timing
// has one of its own.
type outbox interface {
	StoreID() [16]byte
	Position(context.Context) (trace.Position, error)
	Next(ctx context.Context, from trace.Position, limit int) (*trace.Delivery, error)
	Advance(ctx context.Context, from, to trace.Position) error
	Pending(context.Context) (rows int64, oldest time.Time, err error)
	Close() error
}

// Start begins to copy. The drain owns the sink from then on, and closes it when it
// ends.
func Start(config Config) *Drain {
	d := newDrain(config)
	d.open = func(ctx context.Context) (outbox, error) {
		return sqlite.OpenOutbox(ctx, config.Path, config.Workspace, CursorName(config.Workspace, config.Name))
	}
	go d.run()
	return d
}

// CursorName is the name under which the store keeps the position of a sink.
func CursorName(workspace, name string) string { return workspace + "/" + name }

func newDrain(config Config) *Drain {
	config.Batch = cmp.Or(config.Batch, defaultBatch)
	config.Timeout = cmp.Or(config.Timeout, defaultTimeout)
	config.Poll = cmp.Or(config.Poll, defaultPoll)
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Drain{
		config: config,
		cursor: config.Path + "\x00" + CursorName(config.Workspace, config.Name),
		wake:   make(chan struct{}, 1),
		stop:   make(chan struct{}),
		finish: make(chan struct{}),
		done:   make(chan struct{}),
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// Wake makes the drain look into the store at once. It never blocks.
func (d *Drain) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Stop ends the drain after the running delivery, which is cancelled when ctx
// is done. Pending rows wait in the store.
func (d *Drain) Stop(ctx context.Context) error {
	d.stopOnce.Do(func() { close(d.stop) })
	return d.await(ctx)
}

// Finish ends the drain when nothing is pending any more, or ctx is done. It
// returns nil only if nothing is pending. Pending rows wait in the store.
func (d *Drain) Finish(ctx context.Context) error {
	d.finOnce.Do(func() { close(d.finish) })
	err := d.await(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.drained {
		return err
	}
	left := "rows may wait in the store" // they were not counted
	if rows := d.state.Pending; rows > 0 {
		left = fmt.Sprintf("about %d rows wait in the store", rows)
	}
	if d.state.LastError != "" {
		left += ": " + d.state.LastError
	}
	return errors.Join(err, fmt.Errorf("sink %s: %s", d.config.Name, left))
}

// await waits for the end of the drain, and hastens it when ctx is done.
func (d *Drain) await(ctx context.Context) error {
	select {
	case <-d.done:
		return nil
	case <-ctx.Done():
	}
	d.stopOnce.Do(func() { close(d.stop) })
	d.cancel()
	timer := time.NewTimer(cancelTimeout)
	defer timer.Stop()
	select {
	case <-d.done:
		return nil
	case <-timer.C:
		return fmt.Errorf("sink %s does not end although it is cancelled", d.config.Name)
	}
}

// Stats is a drain's account of itself.
type Stats struct {
	Up        bool          // the last operation succeeded, and the running one is within Config.Timeout
	LastError string        // empty when Up
	DownSince time.Time     // of the failures in a row that were logged, or of the call that takes too long; else zero
	Pending   int64         // estimate of the waiting rows, including other workspaces'
	Age       time.Duration // of the oldest of them
	Delivered uint64        // rows that the sink took, repetitions included
	Failures  uint64        // tries that failed
	Refusals  Refusals
}

// Stats returns the drain's account of itself.
func (d *Drain) Stats() Stats {
	d.mu.Lock()
	s := d.state
	if !d.oldest.IsZero() {
		s.Age = max(0, time.Since(d.oldest))
	}
	if took := time.Since(d.called); s.Up && !d.called.IsZero() && took > d.config.Timeout {
		s.Up, s.DownSince, s.LastError = false, d.called, fmt.Sprintf("a call to the sink has gone on for %s", took.Round(time.Second))
	}
	d.mu.Unlock()
	s.Delivered, s.Failures = d.delivered.Load(), d.failed.Load()
	s.Refusals = refusals(d.config.Sink)
	return s
}

// turns holds, for each cursor, the drains that are at work or wait for their turn.
var turns struct {
	sync.Mutex
	byCursor map[string]*turn
}

type turn struct {
	drains int
	taken  chan struct{} // holds one while one is at work
}

// takeTurn waits until no other drain of the cursor is at work. It reports whether
// that came before the drain was stopped.
func (d *Drain) takeTurn() bool {
	turns.Lock()
	if turns.byCursor == nil {
		turns.byCursor = make(map[string]*turn)
	}
	t := turns.byCursor[d.cursor]
	if t == nil {
		t = &turn{taken: make(chan struct{}, 1)}
		turns.byCursor[d.cursor] = t
	}
	t.drains++
	turns.Unlock()
	select {
	case t.taken <- struct{}{}:
		return true
	case <-d.stop:
		d.leave(t)
		return false
	}
}

func (d *Drain) endTurn() {
	turns.Lock()
	t := turns.byCursor[d.cursor]
	turns.Unlock()
	<-t.taken
	d.leave(t)
}

func (d *Drain) leave(t *turn) {
	turns.Lock()
	defer turns.Unlock()
	if t.drains--; t.drains == 0 {
		delete(turns.byCursor, d.cursor)
	}
}
