package sinks

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

// await is a sink's work that takes so long.
func await(ctx context.Context, work time.Duration) error {
	select {
	case <-time.After(work):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestDrainWaitsLongerForWhatCannotBeSmaller has single rows and erasures take
// longer than they may at first.
func TestDrainWaitsLongerForWhatCannotBeSmaller(t *testing.T) {
	const second, minute = time.Second, time.Minute
	for _, c := range []struct {
		name           string
		batch          int
		timeout        time.Duration
		rows, erasures int64
		needs          time.Duration
		want           []time.Duration // each try's
	}{
		{"single rows", 1, 0, 2, 0, 100 * second, []time.Duration{30 * second, 60 * second, 120 * second, 30 * second, 60 * second, 120 * second}},
		{"a row that is alone", 500, 0, 1, 0, 40 * second, []time.Duration{30 * second, 60 * second}},
		{"rows that were several", 2, 0, 2, 0, 40 * second, []time.Duration{30 * second, 30 * second, 60 * second, 30 * second, 60 * second}},
		{"an erasure", 500, 0, 0, 1, 50 * minute, []time.Duration{5 * minute, 10 * minute, 20 * minute, 40 * minute, 60 * minute}},
		{"an erasure behind rows", 2, 0, 2, 1, 6 * minute, []time.Duration{5 * minute, 1 * minute, 2 * minute, 4 * minute, 8 * minute, 5 * minute, 10 * minute}},
		{"never", 1, 0, 1, 0, 1000 * time.Hour, []time.Duration{30 * second, minute, 2 * minute, 4 * minute, 8 * minute, 16 * minute, 32 * minute, time.Hour, time.Hour, time.Hour}},
		{"never, and more is configured", 1, 2 * time.Hour, 1, 0, 1000 * time.Hour, []time.Duration{2 * time.Hour, 2 * time.Hour}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				box, sink := &fakeBox{rows: c.rows, erasures: c.erasures}, &fakeSink{}
				var allowed []time.Duration
				sink.fail = func(ctx context.Context, _ int) error {
					deadline, _ := ctx.Deadline()
					look(sink, func() any { allowed = append(allowed, time.Until(deadline)); return nil })
					return await(ctx, c.needs)
				}
				d, _ := startFake(t, box, sink, Config{Batch: c.batch, Timeout: c.timeout})
				time.Sleep(5 * time.Hour)
				synctest.Wait()
				got := look(sink, func() []time.Duration { return slices.Clone(allowed) })
				if len(got) < len(c.want) || !slices.Equal(got[:len(c.want)], c.want) {
					t.Errorf("the tries may take %s, want %s", got[:min(len(got), 15)], c.want)
				}
				if s := d.Stats(); c.needs < time.Hour && (len(got) != len(c.want) || s.Pending != 0 || !s.Up) {
					t.Errorf("after %d tries: %+v", len(got), s)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				d.Stop(ctx)
			})
		})
	}
}

// TestDrainWaitsLongerForASinkThatPrepares has a sink change large tables before it
// goes on. One that fails before its time is up has no more of it.
func TestDrainWaitsLongerForASinkThatPrepares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const second = time.Second
		box, sink := &fakeBox{rows: 1}, new(fakeSink)
		var allowed []time.Duration
		sink.prepare = func(ctx context.Context) error {
			deadline, _ := ctx.Deadline()
			var try int
			look(sink, func() any { allowed = append(allowed, time.Until(deadline)); try = len(allowed); return nil })
			if try == 2 { // the connection
				time.Sleep(10 * second)
				return context.DeadlineExceeded
			}
			return await(ctx, 100*second)
		}
		d, _ := startFake(t, box, sink, Config{})
		time.Sleep(time.Hour)
		synctest.Wait()
		want := []time.Duration{30 * second, 60 * second, 60 * second, 120 * second}
		if got := look(sink, func() []time.Duration { return slices.Clone(allowed) }); !slices.Equal(got, want) {
			t.Errorf("the tries may take %s, want %s", got, want)
		}
		if s := d.Stats(); s.Pending != 0 || !s.Up {
			t.Errorf("%+v", s)
		}
		if err := d.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestFinishTellsWhatItLeaves ends drains that are not at the end of the store.
func TestFinishTellsWhatItLeaves(t *testing.T) {
	hang := func(ctx context.Context, _ int) error { return await(ctx, 1000*time.Hour) }
	for _, c := range []struct {
		name string
		fail func(ctx context.Context, try int) error
		open func(context.Context) (outbox, error)
		do   func(*Drain)
		want string
	}{
		{"a sink that hangs", hang, nil, nil, "10 rows"},
		{"a sink that hangs and does not listen", func(context.Context, int) error { time.Sleep(20 * time.Second); return errors.New("late") }, nil, nil, "does not end although"},
		{"a sink that is away", func(context.Context, int) error { return errors.New("away") }, nil, nil, "10 rows wait in the store: away"},
		{"a store that is away", nil, func(context.Context) (outbox, error) { return nil, errors.New("no file") }, nil, "no file"},
		{"a drain that was stopped", hang, nil, func(d *Drain) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			d.Stop(ctx)
		}, "10 rows"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				box, sink := &fakeBox{rows: 10}, &fakeSink{fail: c.fail}
				if c.open == nil {
					c.open = func(context.Context) (outbox, error) { return box, nil }
				}
				d, _ := startOpening(t, c.open, sink, Config{})
				time.Sleep(2 * time.Second)
				if c.do != nil {
					c.do(d)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if err := d.Finish(ctx); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("the error is %v, want one with %q", err, c.want)
				}
				if n := len(sink.taken()); n != 0 {
					t.Errorf("%d rows are delivered", n)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// TestFinishBehindAnotherDrain has a drain that never got its turn return an
// error.
func TestFinishBehindAnotherDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := &fakeBox{rows: 10}
		first, _ := startFake(t, box, &fakeSink{fail: func(ctx context.Context, _ int) error { return await(ctx, time.Hour) }}, Config{})
		synctest.Wait()
		second, _ := startFake(t, box, &fakeSink{}, Config{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := second.Finish(ctx); err == nil {
			t.Error("it finished, and another drain was at work all the time")
		}
		first.Stop(ctx)
	})
}

// TestStatsGoOnWhileACallHangs has the sink not answer, and not listen to the end
// of its context either.
func TestStatsGoOnWhileACallHangs(t *testing.T) {
	for _, c := range []struct {
		name string
		hang func(sink *fakeSink, release <-chan struct{})
		up   bool // for as long as the call may take
	}{
		{"a delivery", func(sink *fakeSink, release <-chan struct{}) {
			sink.fail = func(context.Context, int) error { <-release; return nil }
		}, true},
		{"the preparation for one", func(sink *fakeSink, release <-chan struct{}) {
			sink.fail = func(_ context.Context, try int) error {
				if try == 2 {
					return errors.New("once")
				}
				return nil
			}
			sink.resume = func(kept trace.Position) (trace.Position, error) { <-release; return kept, nil }
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				box, sink := &fakeBox{rows: 10}, &fakeSink{}
				d, _ := startFake(t, box, sink, Config{})
				synctest.Wait()
				release := make(chan struct{})
				look(sink, func() any { c.hang(sink, release); return nil })
				box.add(1)
				d.Wake()
				for waiting := int64(6); waiting <= 16; waiting += 5 {
					box.add(5)
					time.Sleep(2 * time.Second)
					if s := d.Stats(); s.Pending != waiting || s.Age == 0 || s.Up != c.up {
						t.Errorf("%+v, want %d rows and Up %t", s, waiting, c.up)
					}
				}
				time.Sleep(defaultTimeout)
				if s := d.Stats(); s.Up || s.LastError == "" || s.DownSince.IsZero() || time.Since(s.DownSince) > time.Minute {
					t.Errorf("a call hangs for %s: %+v", defaultTimeout, s)
				}
				close(release)
				time.Sleep(time.Minute)
				synctest.Wait()
				wantRows(t, sink, 26)
				if s := d.Stats(); !s.Up || s.LastError != "" || s.Pending != 0 {
					t.Errorf("when it answers again: %+v", s)
				}
				if err := d.Finish(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestStopKeepsWhatWasDelivered cancels a delivery that nevertheless succeeds.
func TestStopKeepsWhatWasDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box, sink := &fakeBox{rows: 10}, &fakeSink{}
		sink.fail = func(ctx context.Context, _ int) error { <-ctx.Done(); return nil }
		d, _ := startFake(t, box, sink, Config{})
		synctest.Wait()
		next := &fakeSink{}
		second, _ := startFake(t, box, next, Config{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := d.Stop(ctx); err != nil {
			t.Error(err)
		}
		box.add(1)
		if err := second.Finish(t.Context()); err != nil {
			t.Error(err)
		}
		if first, then := len(sink.taken()), next.taken(); first != 10 || !slices.Equal(then, []string{"11"}) {
			t.Errorf("the drain that was stopped delivered %d rows, and the next one %q, want 10 and 11", first, then)
		}
	})
}
