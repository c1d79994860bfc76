package recorder

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/exposure"
	"github.com/cadenza-gateway/cadenza/trace"
)

func exposed(r *trace.Record) *exposure.Exposure {
	return &exposure.Exposure{Trace: r.ID, Request: &exposure.Request{Workspace: "a"}}
}

// counted returns how many answers a store has counted on a trace in a minute.
func counted(s *memStore, e *exposure.Exposure, at time.Time) int {
	return s.counts[Count{exposure.Count{Trace: e.Trace, Minute: exposure.MinuteOf(at)}, "a"}]
}

// TestCounts: answers count in the minute in which they were given, whenever the store has
// them.
func TestCounts(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		began := time.Now()
		record := evaluation(1)
		e := exposed(record)
		r.Evaluation(record)
		for minute := range 3 {
			for range minute + 1 {
				r.Counted(e, began.Add(time.Duration(minute)*time.Minute))
			}
		}
		open(t, r)
		settle(time.Second)
		for minute := range 3 {
			if got := counted(s, e, began.Add(time.Duration(minute)*time.Minute)); got != minute+1 {
				t.Errorf("%d answers in minute %d", got, minute)
			}
		}
		commits := len(s.log())
		r.Counted(e, began)
		if err := r.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		if got := counted(s, e, began); got != 2 || len(s.log()) != commits+1 {
			t.Errorf("%d answers, %d commits", got, len(s.log())-commits)
		}
	})
}

// TestCountsFollowTheirRecords: more records wait than a batch takes.
func TestCountsFollowTheirRecords(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		for n := range 3 * maxBatch {
			record := evaluation(1)
			record.ID[2], record.ID[3] = byte(n), byte(n>>8)
			e := exposed(record)
			r.Evaluation(record)
			r.Counted(e, time.Now())
		}
		open(t, r)
		settle(time.Second)
		if len(s.early) > 0 || len(s.counts) != 3*maxBatch {
			t.Errorf("%d traces with counts, %d counts before their traces", len(s.counts), len(s.early))
		}
	})
}

// TestCountsWaitForTheStore: a store that fails for hours loses none, and the ones that a
// recorder can't store at its end are counted as lost.
func TestCountsWaitForTheStore(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		open(t, r)
		record := evaluation(1)
		e := exposed(record)
		r.Evaluation(record)
		settle(time.Second)
		s.set(func(s *memStore) { s.fail = func(*Batch) error { return errors.New("full") } })
		began := time.Now()
		for minute := range 100 {
			r.Counted(e, began.Add(time.Duration(minute)*time.Minute))
			settle(time.Second)
		}
		s.set(func(s *memStore) { s.fail = nil })
		settle(time.Minute)
		for minute := range 100 {
			if got := counted(s, e, began.Add(time.Duration(minute)*time.Minute)); got != 1 {
				t.Errorf("%d answers in minute %d", got, minute)
			}
		}
		s.set(func(s *memStore) { s.fail = func(*Batch) error { return errors.New("full") } })
		for range 5 {
			r.Counted(e, began)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_ = r.Close(ctx)
		if lost := r.Stats().Workspaces["a"].Failed; lost != 5 {
			t.Errorf("%d lost answers", lost)
		}
	})
}

// TestPastCountsAreBounded: beyond the bound answers count later, but they count.
func TestPastCountsAreBounded(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		record := evaluation(1)
		e := exposed(record)
		r.Evaluation(record)
		now := time.Now()
		r.queue.counts.past = make([]Count, maxPastCounts)
		for minute := range 3 {
			r.Counted(e, now.Add(time.Duration(minute)*time.Minute))
		}
		if n := len(r.queue.counts.past); n != maxPastCounts {
			t.Errorf("%d counts wait", n)
		}
		r.queue.counts.past = nil
		open(t, r)
		settle(time.Second)
		if got := counted(s, e, now.Add(2*time.Minute)); got != 3 {
			t.Errorf("%d answers in the last minute", got)
		}
	})
}

// TestRefusedRecords: the caller learns which records were not taken.
func TestRefusedRecords(t *testing.T) {
	run(t, Options{MaxRecords: 2}, func(t *testing.T, r *Recorder, _ *memStore) {
		records := []*trace.Record{evaluation(1), evaluation(2), evaluation(3)}
		r.Evaluations(records)
		if records[0] == nil || records[1] == nil || records[2] != nil {
			t.Errorf("%v", records)
		}
	})
}

// TestEpochOfLostRecords: nothing is counted on records that the store panics on.
func TestEpochOfLostRecords(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		open(t, r)
		epoch := r.Epoch()
		r.Evaluation(evaluation(1))
		settle(time.Second)
		if r.Epoch() != epoch {
			t.Error("a stored record begins another epoch")
		}
		s.set(func(s *memStore) { s.fail = func(*Batch) error { panic("no") } })
		r.Evaluation(evaluation(2))
		settle(time.Hour)
		if r.Epoch() == epoch {
			t.Error("a record is lost, and answers may be counted on it")
		}
	})
}

// TestEpochs: another store, or another recorder, begins another epoch.
func TestEpochs(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		open(t, r)
		epoch := r.Epoch()
		if other := New(Options{}); other.Epoch() == epoch {
			t.Error("two recorders have one epoch")
		} else {
			closeRecorder(t, other)
		}
		s.set(func(s *memStore) { s.fail = func(*Batch) error { return ErrReplaced } })
		r.Evaluation(evaluation(1))
		settle(time.Second)
		s.set(func(s *memStore) { s.fail = nil })
		settle(time.Minute)
		if r.Epoch() == epoch {
			t.Error("another store has the same epoch")
		}
	})
}
