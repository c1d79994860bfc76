package recorder

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

func TestCloseDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore()
		s.delay = time.Millisecond
		r := New(Options{Open: s.open})
		open(t, r)
		for n := range 1000 {
			record := evaluation(byte(n))
			record.ID[2] = byte(n >> 8)
			r.Evaluation(record)
		}
		closeRecorder(t, r)
		closeRecorder(t, r)
		if len(s.records) != 1000 || s.closed != 1 {
			t.Errorf("%d of 1000 are stored, closed %d times", len(s.records), s.closed)
		}
		if r.Evaluation(evaluation(1)) || r.Start(t.Context(), &trace.Record{}) {
			t.Error("something was taken after Close")
		}
		if err := r.Metrics(t.Context(), metricsOn(1)); !errors.Is(err, ErrUnavailable) {
			t.Errorf("metrics after Close: %v", err)
		}
		stats := r.Stats()
		if stats.Availability != Closed || stats.Drops != (Drops{Closed: 2}) || stats.Stored != 1000 {
			t.Errorf("%+v", stats)
		}
	})
}

func TestCloseWithoutOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore()
		closeRecorder(t, New(Options{Open: s.open}))
		if s.opened != 0 {
			t.Error("the store was opened for nothing")
		}
		r := New(Options{Open: s.open})
		r.Evaluation(evaluation(1))
		closeRecorder(t, r)
		if !s.has(trace.ID{1, 1}) || s.opened != s.closed {
			t.Errorf("what waited is lost; opened %d times, closed %d", s.opened, s.closed)
		}
	})
}

func TestCloseGivesUpOnAFailingStore(t *testing.T) {
	for name, prepare := range map[string]func(*memStore){
		"commits":    func(s *memStore) { s.fail = func(*Batch) error { return errors.New("disk full") } },
		"is broken":  func(s *memStore) { s.fail = func(*Batch) error { return ErrBroken } },
		"panics":     func(s *memStore) { s.fail = func(*Batch) error { panic("a bug") } },
		"can't open": func(s *memStore) { s.openError = errors.New("permission denied") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newMemStore()
				prepare(s)
				r := New(Options{Open: s.open})
				r.Open()
				for n := range 300 {
					r.Evaluation(evaluation(byte(n)))
				}
				began := time.Now()
				closeRecorder(t, r)
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("it took %s", took)
				}
				if got := r.Stats().Drops.Failed; got != 300 {
					t.Errorf("%d of 300 lost records are counted", got)
				}
				if s.opened != s.closed {
					t.Errorf("opened %d times, closed %d", s.opened, s.closed)
				}
			})
		})
	}
}

func TestCloseIsBoundedByItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore()
		s.delay = time.Hour
		r := New(Options{Open: s.open})
		open(t, r)
		for range 3 * maxBatch {
			r.Evaluation(evaluation(1))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		settle(2 * time.Hour)
		if stats := r.Stats(); stats.Availability != Closed || stats.Drops.Failed != 2*maxBatch || stats.Stored != maxBatch {
			t.Errorf("%+v", stats)
		}
		if s.cancelled > 0 {
			t.Error("the commit that was under way was cancelled")
		}
	})
}
