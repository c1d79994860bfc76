package recorder

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

// replacedOnce fails the first call with ErrReplaced.
func replacedOnce() func() error {
	called := false
	return func() error {
		if called {
			return nil
		}
		called = true
		return ErrReplaced
	}
}

// TestReplacedStore has a store fail and another replace it: the waiting batch
// goes to the new one, and no waiting report is refused.
func TestReplacedStore(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		open(t, r)
		fail := replacedOnce()
		s.set(func(s *memStore) { s.fail = func(*Batch) error { return fail() } })
		began := time.Now()
		r.Evaluation(evaluation(1))
		if err := r.Metrics(t.Context(), metricsOn(1)); err != nil {
			t.Errorf("metrics: %v", err)
		}
		if err := r.Keep(t.Context(), &trace.Reply{ReplyKey: trace.ReplyKey{Key: "k"}, Time: began}); err != nil {
			t.Errorf("a reply: %v", err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %s", took)
		}
		settle(time.Second)
		if s.opened != 2 || s.closed != 1 || len(s.metrics) != 1 || len(s.replies) != 1 || !s.has(trace.ID{1, 1}) {
			t.Errorf("opened %d times, closed %d; %d metrics, %d replies", s.opened, s.closed, len(s.metrics), len(s.replies))
		}
		if stats := r.Stats(); stats.Availability != Available || stats.MetricsRejected != 0 || stats.CommitFailures != 1 {
			t.Errorf("%+v", stats)
		}
	})
}

// TestReplacedStoreFails has the second store fail, too: waiting reports get an
// error at once.
func TestReplacedStoreFails(t *testing.T) {
	for name, worse := range map[string]func(*memStore){
		"replaced again": func(s *memStore) { s.fail = func(*Batch) error { return ErrReplaced } },
		"can't open": func(s *memStore) {
			fail := replacedOnce()
			s.fail = func(*Batch) error { return fail() }
			s.openError = errors.New("permission denied")
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
				open(t, r)
				s.set(worse)
				began := time.Now()
				if err := r.Metrics(t.Context(), metricsOn(1)); !errors.Is(err, ErrUnavailable) {
					t.Errorf("metrics: %v", err)
				}
				if took := time.Since(began); took > 0 {
					t.Errorf("it took %s", took)
				}
				s.set(func(s *memStore) { s.fail, s.openError = nil, nil })
				settle(maxRetryPause)
				if err := r.Metrics(t.Context(), metricsOn(2)); err != nil {
					t.Errorf("metrics later: %v", err)
				}
				if len(s.metrics) != 1 {
					t.Errorf("%d metrics are stored", len(s.metrics))
				}
			})
		})
	}
}

// TestStoreThatBreaksOff has an idle store say that it is broken.
func TestStoreThatBreaksOff(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		s.broken = make(chan struct{})
		open(t, r)
		settle(maintainEvery / 2)
		fail := replacedOnce()
		broken := s.broken
		s.set(func(s *memStore) {
			s.maintain = func() (bool, error) { return false, fail() }
			s.broken = nil
		})
		close(broken)
		synctest.Wait()
		if s.opened != 2 {
			t.Errorf("opened %d times", s.opened)
		}
		if err := r.Metrics(t.Context(), metricsOn(1)); err != nil || r.Stats().MetricsRejected != 0 {
			t.Errorf("metrics: %v", err)
		}
	})
}
