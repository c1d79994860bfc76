package sinks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeBox is an outbox of numbered records in memory.
type fakeBox struct {
	mu     sync.Mutex
	rows   int64 // there are
	cursor trace.Position
	// erasures there are, behind all rows
	erasures int64
	closed   int
	broken   bool // whatever is asked fails until it is opened anew
	stuck    int  // how many more times Advance fails
	advances int
}

var errStuck = errors.New("database is locked")

func (b *fakeBox) StoreID() [16]byte { return [16]byte{1} }

func (b *fakeBox) Position(context.Context) (trace.Position, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken {
		return trace.Position{}, recorder.ErrBroken
	}
	return b.cursor, nil
}

func (b *fakeBox) Next(_ context.Context, from trace.Position, limit int) (*trace.Delivery, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(b.rows-from.Traces, int64(limit))
	d := &trace.Delivery{Position: from}
	d.Position.Traces += n
	if d.Position.Traces == b.rows && from.Erasures < b.erasures {
		d.Position.Erasures++
		d.Erasures = make([]trace.Erasure, 1)
	}
	if d.Position == from {
		return nil, nil
	}
	for i := range n {
		r := &trace.Record{Key: fmt.Sprint(from.Traces + i + 1)}
		d.Records = append(d.Records, r)
	}
	return d, nil
}

func (b *fakeBox) Advance(ctx context.Context, from, to trace.Position) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advances++
	if b.stuck > 0 {
		b.stuck--
		return errStuck
	}
	if from != b.cursor {
		return trace.ErrMoved
	}
	b.cursor = to
	return nil
}

func (b *fakeBox) Pending(context.Context) (int64, time.Time, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	pending := b.rows - b.cursor.Traces + b.erasures - b.cursor.Erasures
	if pending == 0 {
		return 0, time.Time{}, nil
	}
	return pending, time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), nil
}

func (b *fakeBox) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed++
	b.broken = false
	return nil
}

func (b *fakeBox) add(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rows += n
}

func (b *fakeBox) move(to trace.Position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cursor = to
}

// fakeSink remembers the deliveries that it took and fails on demand.
type fakeSink struct {
	mu      sync.Mutex
	rows    []string
	sizes   []int
	tries   []time.Duration // since the start
	start   time.Time
	resumes []trace.Position
	fail    func(ctx context.Context, try int) error
	prepare func(context.Context) error // before resume
	resume  func(kept trace.Position) (trace.Position, error)
	closed  int
}

func (s *fakeSink) Resume(ctx context.Context, _ Source, kept trace.Position) (trace.Position, error) {
	s.mu.Lock()
	s.resumes = append(s.resumes, kept)
	prepare, resume := s.prepare, s.resume
	s.mu.Unlock()
	if prepare != nil {
		if err := prepare(ctx); err != nil {
			return trace.Position{}, err
		}
	}
	if resume != nil {
		return resume(kept)
	}
	return kept, nil
}

func (s *fakeSink) Deliver(ctx context.Context, d *trace.Delivery) error {
	s.mu.Lock()
	s.tries = append(s.tries, time.Since(s.start))
	try, fail := len(s.tries), s.fail
	s.mu.Unlock()
	if fail != nil {
		if err := fail(ctx, try); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sizes = append(s.sizes, d.Len())
	for _, r := range d.Records {
		s.rows = append(s.rows, r.Key)
	}
	return nil
}

func (s *fakeSink) Shared() bool { return false }

func (s *fakeSink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	return nil
}

func (s *fakeSink) Refusals() Refusals { return Refusals{Stripped: 3, Dropped: 1} }

func (s *fakeSink) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.rows)
}

// look reads the sink's state while a delivery may be running.
func look[T any](s *fakeSink, read func() T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return read()
}

// tried is when it was tried, since the start.
func (s *fakeSink) tried() []time.Duration {
	return look(s, func() []time.Duration { return slices.Clone(s.tries) })
}

func (s *fakeSink) resumed() int { return look(s, func() int { return len(s.resumes) }) }

// logs keeps the lines of a logger.
type logs struct {
	mu    sync.Mutex
	lines []string
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(p))
	return len(p), nil
}

func (l *logs) count(level string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, "level="+level) {
			n++
		}
	}
	return n
}

func startFake(t *testing.T, box *fakeBox, sink *fakeSink, config Config) (*Drain, *logs) {
	t.Helper()
	return startOpening(t, func(context.Context) (outbox, error) { return box, nil }, sink, config)
}

func startOpening(t *testing.T, open func(context.Context) (outbox, error), sink *fakeSink, config Config) (*Drain, *logs) {
	t.Helper()
	output := new(logs)
	config.Path, config.Workspace, config.Name, config.Sink = t.Name(), "default", "fake", sink
	config.Logger = slog.New(slog.NewTextHandler(output, nil))
	sink.start = time.Now()
	d := newDrain(config)
	d.open = open
	go d.run()
	return d, output
}

func wantRows(t *testing.T, sink *fakeSink, n int) {
	t.Helper()
	rows := sink.taken()
	if len(rows) != n {
		t.Fatalf("%d rows were delivered, want %d", len(rows), n)
	}
	for i, row := range rows {
		if row != fmt.Sprint(i+1) {
			t.Fatalf("row %d is %s", i+1, row)
		}
	}
}

func TestDrainDeliversInOrderAndLooksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box, sink := &fakeBox{rows: 1200}, &fakeSink{}
		d, output := startFake(t, box, sink, Config{})
		synctest.Wait()
		wantRows(t, sink, 1200)
		box.add(1)
		time.Sleep(defaultPoll)
		synctest.Wait()
		wantRows(t, sink, 1201)
		box.add(1)
		d.Wake()
		synctest.Wait()
		wantRows(t, sink, 1202)
		if s := d.Stats(); !s.Up || s.Delivered != 1202 || s.Failures != 0 || s.Pending != 0 || s.Age != 0 || s.Refusals != (Refusals{3, 1}) {
			t.Errorf("stats: %+v", s)
		}
		box.add(700)
		if err := d.Finish(t.Context()); err != nil {
			t.Error(err)
		}
		wantRows(t, sink, 1902)
		if sink.closed != 1 || box.closed != 1 || len(sink.resumes) != 1 {
			t.Errorf("the sink was closed %d times, the store %d times; %d resumes", sink.closed, box.closed, len(sink.resumes))
		}
		if n := len(output.lines); n != 0 {
			t.Errorf("it has something to say: %q", output.lines)
		}
	})
}

// TestDrainBacksOff counts the tries of a sink that is away for an hour.
func TestDrainBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box, sink := &fakeBox{rows: 10}, &fakeSink{}
		began := time.Now()
		sink.fail = func(context.Context, int) error {
			if time.Since(began) < time.Hour {
				return errors.New("away")
			}
			return nil
		}
		d, output := startFake(t, box, sink, Config{})
		time.Sleep(time.Hour - time.Second)
		synctest.Wait()
		s := d.Stats()
		// Each pause is 15 to 30 s in the end.
		if s.Up || s.LastError != "away" || s.Failures < 120 || s.Failures > 260 || s.Pending != 10 {
			t.Errorf("while it is away: %+v", s)
		}
		if !s.DownSince.Equal(began) {
			t.Errorf("it is down since %s, want %s", s.DownSince, began)
		}
		if age := time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)); s.Age != age {
			t.Errorf("the oldest row is %s old, want %s", s.Age, age)
		}
		if output.count("ERROR") != 1 || output.count("INFO") != 0 {
			t.Errorf("the log: %q", output.lines)
		}
		tries := sink.tried()
		for i := 1; i < len(tries); i++ {
			pause, most := tries[i]-tries[i-1], min(minPause<<min(i-1, 16), maxPause)
			if pause < most/2 || pause > most {
				t.Errorf("pause %d is %s, want %s to %s", i, pause, most/2, most)
			}
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		wantRows(t, sink, 10)
		if s := d.Stats(); !s.Up || s.LastError != "" || !s.DownSince.IsZero() {
			t.Errorf("when it is back: %+v", s)
		}
		if output.count("ERROR") != 1 || output.count("INFO") != 1 {
			t.Errorf("the log: %q", output.lines)
		}
		if resumes, tries := sink.resumed(), len(sink.tried()); resumes != tries {
			t.Errorf("%d resumes for %d tries", resumes, tries)
		}
		d.Stop(t.Context())
	})
}

func TestDrainHalvesWhatTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box, sink := &fakeBox{rows: 4000}, &fakeSink{}
		sink.fail = func(ctx context.Context, try int) error {
			if try > 3 {
				return nil
			}
			<-ctx.Done()
			return fmt.Errorf("too slow: %w", ctx.Err())
		}
		d, _ := startFake(t, box, sink, Config{})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		wantRows(t, sink, 4000)
		sizes := look(sink, func() []int { return slices.Clone(sink.sizes) })
		if sizes[0] != 62 {
			t.Errorf("after three timeouts it delivers %d rows at once, want 62", sizes[0])
		}
		if largest := slices.Max(sizes); largest != 500 {
			t.Errorf("it grows back to %d rows, want 500", largest)
		}
		for i := 1; i < 3; i++ {
			if pause := sink.tried()[i] - sink.tried()[i-1]; pause < defaultTimeout {
				t.Errorf("try %d ended after %s", i, pause)
			}
		}
		d.Stop(t.Context())
	})
}

// TestDrainGoesBack has a sink that lost rows it had taken.
func TestDrainGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box, sink := &fakeBox{rows: 100}, &fakeSink{}
		d, _ := startFake(t, box, sink, Config{})
		synctest.Wait()
		wantRows(t, sink, 100)
		sink.mu.Lock()
		sink.rows = sink.rows[:40]
		sink.fail = func(_ context.Context, try int) error {
			if try == 2 {
				return errors.New("another server answers")
			}
			return nil
		}
		sink.resume = func(kept trace.Position) (trace.Position, error) {
			return trace.Position{Traces: int64(len(sink.taken())), Metrics: 1 << 40}, nil // more than kept is not believed
		}
		sink.mu.Unlock()
		box.add(5)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantRows(t, sink, 105)
		if at, _ := box.Position(t.Context()); at != (trace.Position{Traces: 105}) {
			t.Errorf("the store's position is %+v", at)
		}
		d.Stop(t.Context())
	})
}

// TestDrainFollowsACursorThatWasMoved has somebody else move the cursor: while
// nothing happens, and during a delivery.
func TestDrainFollowsACursorThatWasMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box, sink := &fakeBox{rows: 10}, &fakeSink{}
		d, output := startFake(t, box, sink, Config{})
		synctest.Wait()
		box.move(trace.Position{Traces: 7})
		d.Wake()
		synctest.Wait()
		if n := len(sink.taken()); n != 13 {
			t.Errorf("%d rows, want 10 and 3 again", n)
		}
		sink.mu.Lock()
		sink.fail = func(_ context.Context, try int) error {
			if try == 3 {
				box.move(trace.Position{Traces: 8})
			}
			return nil
		}
		sink.mu.Unlock()
		box.add(1) // 11 is delivered, and then 9 to 11
		d.Wake()
		synctest.Wait()
		if n := len(sink.taken()); n != 17 {
			t.Errorf("%d rows, want 17", n)
		}
		if s := d.Stats(); s.Failures != 0 || len(output.lines) != 0 {
			t.Errorf("that is no failure: %+v %q", s, output.lines)
		}
		d.Stop(t.Context())
	})
}

func TestDrainOpensABrokenStoreAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box, sink := &fakeBox{rows: 10}, &fakeSink{}
		d, output := startFake(t, box, sink, Config{})
		synctest.Wait()
		box.mu.Lock()
		box.broken = true
		box.rows++
		box.mu.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantRows(t, sink, 11)
		d.Stop(t.Context())
		if box.closed != 2 || len(output.lines) != 0 {
			t.Errorf("closed %d times, log %q", box.closed, output.lines)
		}
	})
}

// TestStoreThatDoesNotAdvance: while the store can't keep how far a sink is, that is
// said, and the sink does not get the same rows again and again.
func TestStoreThatDoesNotAdvance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const failures = 6
		box, sink := &fakeBox{rows: 10, stuck: failures}, &fakeSink{}
		d, output := startFake(t, box, sink, Config{})
		synctest.Wait()
		if s := d.Stats(); s.Up || s.Failures != 1 || !strings.Contains(s.LastError, errStuck.Error()) {
			t.Errorf("after the first failure: %+v", s)
		}
		if box.advances != 1 || len(sink.taken()) != 10 {
			t.Errorf("without a pause: %d tries, %d rows", box.advances, len(sink.taken()))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := d.Stats(); !s.Up || s.Failures != failures || s.Pending != 0 || box.advances != failures+1 || output.count("ERROR") != 1 {
			t.Errorf("after a minute: %+v, %d tries, log %q", s, box.advances, output.lines)
		}
		d.Stop(t.Context())
	})
}

func TestDrainSurvivesAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box, sink := &fakeBox{rows: 10}, &fakeSink{}
		sink.fail = func(_ context.Context, try int) error {
			if try == 1 {
				panic("oh")
			}
			return nil
		}
		d, _ := startFake(t, box, sink, Config{})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantRows(t, sink, 10)
		if s := d.Stats(); s.Failures != 1 {
			t.Errorf("%+v", s)
		}
		d.Stop(t.Context())
	})
}

// TestStopCancels stops a drain whose sink hangs, and one that waits for its
// turn behind it.
func TestStopCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box, sink := &fakeBox{rows: 10}, &fakeSink{}
		sink.fail = func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		}
		d, output := startFake(t, box, sink, Config{})
		synctest.Wait()
		next := &fakeSink{}
		second, _ := startFake(t, box, next, Config{})
		synctest.Wait()
		if next.resumed() != 0 {
			t.Error("two drains of one sink work at once")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := d.Stop(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(sink.start); took != time.Second {
			t.Errorf("it took %s to stop", took)
		}
		if n := len(output.lines); n != 0 {
			t.Errorf("it has something to say: %q", output.lines)
		}
		synctest.Wait()
		wantRows(t, next, 10)
		third, _ := startFake(t, box, &fakeSink{}, Config{})
		third.Stop(t.Context()) // which waits for its turn
		second.Stop(t.Context())
	})
}

// TestFinishTriesUntilItMayNot has Finish end a long pause, and give up in time.
func TestFinishTriesUntilItMayNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box, sink := &fakeBox{rows: 10}, &fakeSink{}
		sink.fail = func(context.Context, int) error { return errors.New("away") }
		d, _ := startFake(t, box, sink, Config{})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		tries := len(sink.tried())
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err := d.Finish(ctx)
		if err == nil || !strings.Contains(err.Error(), "10 rows") {
			t.Errorf("the error is %v", err)
		}
		if more := len(sink.tried()) - tries; more < 20 || more > 60 {
			t.Errorf("%d more tries in 5 s", more)
		}
		if sink.closed != 1 {
			t.Error("the sink was not closed")
		}
	})
}
