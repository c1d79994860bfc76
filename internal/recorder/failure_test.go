package recorder

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

func TestMetricsAreUnavailableUntilTheStoreOpens(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		refused := errors.New("permission denied")
		s.openError = refused
		if err := r.Metrics(t.Context(), metricsOn(1)); !errors.Is(err, ErrUnavailable) {
			t.Errorf("before Open: %v", err)
		}
		r.Open()
		r.Open()
		synctest.Wait()
		r.Evaluation(evaluation(1))
		began := time.Now()
		if err := r.Metrics(t.Context(), metricsOn(1)); !errors.Is(err, ErrUnavailable) || !errors.Is(err, refused) {
			t.Errorf("while it can't be opened: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if key, err := r.TraceKey(ctx); !errors.Is(err, ErrUnavailable) || !errors.Is(err, refused) {
			t.Errorf("the trace key: %q, %v", key, err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("metrics or the key took %s", took)
		}
		settle(time.Hour)
		if stats := r.Stats(); !stats.Since.Equal(began) || stats.LastError == "" {
			t.Errorf("it can't be opened since %s: %+v", began, stats)
		}
		s.set(func(s *memStore) { s.openError = nil })
		if key, err := r.TraceKey(t.Context()); err != nil || string(key) != "a key of the memory" {
			t.Errorf("the trace key: %q, %v", key, err)
		}
		waited := time.Since(began)
		if waited > time.Hour+5*time.Second {
			t.Errorf("it took %s to open", waited-time.Hour)
		}
		if err := r.Metrics(t.Context(), metricsOn(1)); err != nil {
			t.Error(err)
		}
		if !s.has(trace.ID{1, 1}) {
			t.Error("the evaluation that waited is lost")
		}
		settle(time.Minute)
		if stats := r.Stats(); stats.Availability != Available || !stats.Since.After(began) || stats.Since.After(began.Add(waited)) {
			t.Errorf("available since %s: %+v", stats.Since, stats)
		}
	})
}

// TestMetricsWaitForTheFirstOpening reports while the store is first being
// opened: a gateway that has just started refuses no report for that.
func TestMetricsWaitForTheFirstOpening(t *testing.T) {
	refused := errors.New("permission denied")
	for name, openError := range map[string]error{"opens": nil, "fails": refused} {
		t.Run(name, func(t *testing.T) {
			run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
				s.opening, s.openError = time.Second, openError
				r.Open()
				began := time.Now()
				err := r.Metrics(t.Context(), metricsOn(1))
				if openError == nil && err != nil || !errors.Is(err, openError) {
					t.Errorf("metrics during the opening: %v", err)
				}
				if took := time.Since(began); took < time.Second || took > 2*time.Second {
					t.Errorf("they took %s", took)
				}
				began = time.Now()
				if err := r.Metrics(t.Context(), metricsOn(2)); !errors.Is(err, openError) || openError != nil && time.Since(began) > 0 {
					t.Errorf("metrics afterwards: %v after %s", err, time.Since(began))
				}
			})
		})
	}
}

func TestFailingStore(t *testing.T) {
	full := errors.New("disk full")
	for name, failure := range map[string]error{"passing": full, "broken": errors.Join(ErrBroken, full)} {
		t.Run(name, func(t *testing.T) {
			run(t, Options{MaxRecords: 8}, func(t *testing.T, r *Recorder, s *memStore) {
				open(t, r)
				s.set(func(s *memStore) { s.fail = func(*Batch) error { return failure } })
				r.Evaluation(evaluation(1))
				if err := r.Metrics(t.Context(), metricsOn(1)); !errors.Is(err, ErrUnavailable) || !errors.Is(err, full) {
					t.Errorf("metrics: %v", err)
				}
				for n := range byte(100) {
					began := time.Now()
					r.Evaluation(evaluation(2))
					if !r.Start(t.Context(), &trace.Record{ID: trace.ID{n, 3}}) {
						t.Error("a start is not kept while the store fails")
					}
					if time.Since(began) != 0 {
						t.Fatal("a failing store holds answers up")
					}
					err := r.Metrics(t.Context(), metricsOn(2))
					if !errors.Is(err, ErrUnavailable) || time.Since(began) > 10*time.Millisecond {
						t.Fatalf("%v after %s", err, time.Since(began))
					}
					settle(100 * time.Millisecond)
				}
				stats := r.Stats()
				if stats.Drops.QueueFull == 0 || stats.LateStarts != 0 || stats.MetricsRejected != 101 || stats.CommitFailures == 0 {
					t.Errorf("the losses are not counted: %+v", stats)
				}
				if !strings.Contains(stats.LastError, "disk full") {
					t.Errorf("the last error is %q", stats.LastError)
				}

				s.set(func(s *memStore) { s.fail = nil })
				began := time.Now()
				for r.Metrics(t.Context(), metricsOn(9)) != nil {
					settle(10 * time.Millisecond)
				}
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("recovery took %s", took)
				}
				settle(time.Second)
				if !s.has(trace.ID{1, 1}) {
					t.Error("what waited was not kept")
				}
				if stats := r.Stats(); stats.Availability != Available || stats.LastError != "" {
					t.Errorf("%+v", stats)
				}
				if reopened := s.opened > 1; reopened != errors.Is(failure, ErrBroken) {
					t.Errorf("opened %d times", s.opened)
				}
			})
		})
	}
}

// TestMetricsAloneRecover has nothing but metrics to find out with whether the
// store works again.
// lockedLog can be read while it is written.
type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestErrorsByTurns are logged once a minute, whatever is stored in between: a disk
// that is full fails in several ways, and some commits fit.
func TestErrorsByTurns(t *testing.T) {
	var log lockedLog
	run(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(t *testing.T, r *Recorder, s *memStore) {
		said := func(errors, ends int) {
			t.Helper()
			if got := log.String(); strings.Count(got, "are not stored") != errors || strings.Count(got, "being stored again") != ends {
				t.Errorf("%d errors and %d ends are to be logged:\n%s", errors, ends, got)
			}
		}
		open(t, r)
		began := time.Now()
		turn := byte(0)
		last := ""
		fail := func() {
			turn++
			r.Evaluation(evaluation(turn))
			last = []string{"disk full", "disk I/O error"}[turn%2]
			s.set(func(s *memStore) { s.fail = func(*Batch) error { return errors.New(last) } })
			settle(maxRetryPause)
			if got := r.Stats().LastError; got != last {
				t.Errorf("the last error is %q", got)
			}
		}
		mend := func() {
			s.set(func(s *memStore) { s.fail = nil })
			settle(maxRetryPause)
		}
		fail()
		said(1, 0)
		fail()
		said(1, 0)
		mend()
		said(1, 1)
		fail()
		mend()
		said(1, 1)
		fail()
		said(1, 1)
		settle(time.Minute - time.Since(began) + maxRetryPause)
		said(2, 1)
		mend()
		said(2, 2)
	})
}

func TestMetricsAloneRecover(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		open(t, r)
		s.set(func(s *memStore) { s.fail = func(*Batch) error { return errors.New("disk full") } })
		for range 50 {
			if err := r.Metrics(t.Context(), metricsOn(1)); !errors.Is(err, ErrUnavailable) {
				t.Fatal(err)
			}
			settle(500 * time.Millisecond)
		}
		s.set(func(s *memStore) { s.fail = nil })
		settle(maxRetryPause)
		if err := r.Metrics(t.Context(), metricsOn(2)); err != nil {
			t.Error(err)
		}
	})
}

func TestMetricsAreGivenUp(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		s.delay = time.Minute
		open(t, r)
		var group sync.WaitGroup
		group.Go(func() { // keeps the writer busy
			if err := r.Metrics(t.Context(), metricsOn(1)); !errors.Is(err, ErrUnavailable) {
				t.Errorf("metrics in a commit that takes a minute: %v", err)
			}
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Metrics(ctx, metricsOn(2)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("metrics whose reporter left: %v", err)
		}
		began := time.Now()
		if err := r.Metrics(t.Context(), metricsOn(3)); !errors.Is(err, ErrUnavailable) || time.Since(began) != maxDurableWait {
			t.Errorf("metrics behind it: %v after %s", err, time.Since(began))
		}
		group.Wait()
		settle(10 * time.Minute)
		if !s.has(trace.ID{1, 2}) {
			t.Error("the commit under way was not finished")
		}
		if s.has(trace.ID{2, 2}) || s.has(trace.ID{3, 2}) {
			t.Error("metrics were stored long after their reporter got an error")
		}
	})
}

func TestCeilings(t *testing.T) {
	run(t, Options{MaxRecords: 8, MaxMetrics: 4, MaxBytes: 64 << 10}, func(t *testing.T, r *Recorder, s *memStore) {
		s.delay = time.Minute
		open(t, r)
		var group sync.WaitGroup
		report := func() {
			group.Go(func() { _ = r.Metrics(t.Context(), metricsOn(1)) })
			synctest.Wait()
		}
		report() // is in the commit now
		for n := range byte(20) {
			if got, want := r.Evaluation(evaluation(n)), n < 8; got != want {
				t.Errorf("evaluation %d is taken: %v", n, got)
			}
		}
		if !r.End(evaluation(30)) || !r.End(evaluation(31)) || r.End(evaluation(32)) {
			t.Error("ends must have a quarter more room than evaluations")
		}
		for range 4 {
			report()
		}
		if err := r.Metrics(t.Context(), metricsOn(1)); !errors.Is(err, ErrUnavailable) {
			t.Errorf("metrics at the ceiling: %v", err)
		}
		big := evaluation(1)
		big.Metadata = make([]byte, MaxRecordSize)
		if r.Evaluation(big) || r.Start(t.Context(), &trace.Record{Metadata: make([]byte, MaxRecordSize)}) {
			t.Error("a record past the bound is taken")
		}
		r.Versions([]trace.Version{{Version: "a"}, {Version: "b", Content: make([]byte, 1<<20)}})
		if stats := r.Stats(); stats.Drops.QueueFull != 12+1+1 || stats.Drops.TooLarge != 2 || stats.Queued != 10+4+1 {
			t.Errorf("%+v", stats)
		}
		group.Wait()
	})
}

func TestBytesAreBounded(t *testing.T) {
	run(t, Options{MaxBytes: 10 << 10}, func(t *testing.T, r *Recorder, s *memStore) {
		s.delay = time.Minute
		open(t, r)
		var group sync.WaitGroup
		group.Go(func() { _ = r.Metrics(t.Context(), metricsOn(1)) })
		synctest.Wait()
		taken := 0
		for range 100 {
			record := evaluation(1)
			record.Context = make([]byte, 1<<10)
			if r.Evaluation(record) {
				taken++
			}
		}
		if taken < 4 || taken > 10 {
			t.Errorf("%d KiB wait", taken)
		}
		large := metricsOn(1)
		large.LLMResponse = new(strings.Repeat("x", 10<<10))
		began := time.Now()
		if err := r.Metrics(t.Context(), large); !errors.Is(err, ErrUnavailable) {
			t.Errorf("metrics past the bound: %v", err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("metrics past the bound waited for %s", took)
		}
		large.LLMResponse = new(strings.Repeat("x", 5<<10))
		group.Go(func() { _ = r.Metrics(t.Context(), large) })
		synctest.Wait()
		if waits := r.Stats().Queued - taken; waits != 1 {
			t.Errorf("%d metrics wait, of the ones that fit", waits)
		}
		began = time.Now()
		if err := r.Metrics(t.Context(), large); !errors.Is(err, ErrUnavailable) || time.Since(began) > 0 {
			t.Errorf("metrics that do not fit: %v after %s", err, time.Since(began))
		}
		group.Wait()
	})
}

// TestPanics has every piece of foreign code panic once.
func TestPanics(t *testing.T) {
	once := func() func() {
		done := false
		return func() {
			if !done {
				done = true
				panic("a bug")
			}
		}
	}
	tests := map[string]func(*memStore, *Options){
		"Commit": func(s *memStore, _ *Options) {
			bug := once()
			s.fail = func(*Batch) error { bug(); return nil }
		},
		"Maintain": func(s *memStore, _ *Options) {
			bug := once()
			s.maintain = func() (bool, error) { bug(); return false, nil }
		},
		"OnCommit": func(_ *memStore, o *Options) {
			bug := once()
			o.OnCommit = func(Commit) { bug() }
		},
		"Open": func(_ *memStore, o *Options) {
			bug, open := once(), o.Open
			o.Open = func(ctx context.Context) (Store, error) { bug(); return open(ctx) }
		},
	}
	for name, arrange := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newMemStore()
				var log bytes.Buffer
				options := Options{Open: s.open, Logger: slog.New(slog.NewTextHandler(&log, nil))}
				arrange(s, &options)
				r := New(options)
				r.Open()
				synctest.Wait()
				if err := r.Metrics(t.Context(), metricsOn(1)); err != nil && !errors.Is(err, ErrUnavailable) {
					t.Errorf("metrics at the panic: %v", err)
				}
				settle(10 * time.Second)
				if err := r.Metrics(t.Context(), metricsOn(2)); err != nil {
					t.Errorf("metrics after it: %v", err)
				}
				closeRecorder(t, r)
				if got := r.Stats().Panics; got != 1 {
					t.Errorf("%d panics counted", got)
				}
				if !strings.Contains(log.String(), "a bug") || !strings.Contains(log.String(), "memstore_test.go") && name != "OnCommit" && name != "Open" {
					t.Errorf("the log does not tell: %s", &log)
				}
				if s.opened != s.closed {
					t.Errorf("opened %d times, closed %d", s.opened, s.closed)
				}
			})
		})
	}
}
