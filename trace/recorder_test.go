package trace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run tests a recorder on a store in memory, in a bubble of its own time.
func run(t *testing.T, options Options, test func(t *testing.T, r *Recorder, s *memStore)) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore()
		options := options
		options.Open = s.open
		r := NewRecorder(options)
		defer closeRecorder(t, r)
		test(t, r, s)
	})
}

func closeRecorder(t *testing.T, r *Recorder) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// open opens r and waits until it is available.
func open(t *testing.T, r *Recorder) {
	t.Helper()
	r.Open()
	synctest.Wait()
	if got := r.Stats().Availability; got != Available {
		t.Fatalf("the recorder is %s", got)
	}
}

// settle lets d pass and the recorder do what is then due. What it did may be
// looked at without a lock afterwards.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func evaluation(n byte) *Record {
	r := AcquireRecord()
	r.ID = ID{n, 1}
	r.Kind = KindPrompt
	return r
}

func metricsOn(n byte) *Metrics { return &Metrics{TraceID: ID{n, 2}} }

func TestEvaluationsAreWrittenInGroups(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		open(t, r)
		began := time.Now()
		for n := range byte(10) {
			if !r.Evaluation(evaluation(n)) {
				t.Fatal("dropped")
			}
			settle(time.Millisecond)
		}
		if len(s.log()) > 0 {
			t.Error("it did not wait for company")
		}
		settle(time.Second)
		want := []committed{{at: began.Add(50 * time.Millisecond), records: 10}}
		if diff := cmp.Diff(want, s.log(), cmp.AllowUnexported(committed{})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestFullBatchIsWrittenAtOnce(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		open(t, r)
		for range maxBatch {
			r.Evaluation(evaluation(1))
		}
		synctest.Wait()
		if log := s.log(); len(log) != 1 || log[0].records != maxBatch {
			t.Errorf("%+v, want one commit of %d", log, maxBatch)
		}
	})
}

func TestLargeRecordsAreWrittenInSmallBatches(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		open(t, r)
		for n := range byte(10) {
			record := evaluation(n)
			record.Response = make([]byte, 1<<20)
			r.Evaluation(record)
		}
		settle(time.Second)
		total := 0
		for _, c := range s.log() {
			if c.records > 4 {
				t.Errorf("a commit of %d MiB", c.records)
			}
			total += c.records
		}
		if total != 10 {
			t.Errorf("%d of 10 are stored", total)
		}
	})
}

func TestMetricsWaitForTheirCommit(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		s.delay = 7 * time.Millisecond
		open(t, r)
		r.Evaluation(evaluation(1))
		began := time.Now()
		if err := r.Metrics(t.Context(), metricsOn(1)); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited != s.delay {
			t.Errorf("acknowledged after %s, the commit took %s", waited, s.delay)
		}
		if log := s.log(); len(log) != 1 || log[0].metrics != 1 || log[0].records != 1 {
			t.Errorf("%+v: what waits goes along", log)
		}
	})
}

func TestMetricsShareACommit(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		s.delay = time.Millisecond
		open(t, r)
		var group sync.WaitGroup
		for n := range byte(100) {
			group.Go(func() {
				if err := r.Metrics(t.Context(), metricsOn(n)); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if log := s.log(); len(log) > 2 {
			t.Errorf("%d commits for 100 metrics that came together", len(log))
		}
	})
}

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
		s.set(func(s *memStore) { s.openError = nil })
		if key, err := r.TraceKey(t.Context()); err != nil || string(key) != "a key of the memory" {
			t.Errorf("the trace key: %q, %v", key, err)
		}
		if waited := time.Since(began); waited > time.Hour+5*time.Second {
			t.Errorf("it took %s to open", waited-time.Hour)
		}
		if err := r.Metrics(t.Context(), metricsOn(1)); err != nil {
			t.Error(err)
		}
		if !s.has(ID{1, 1}) {
			t.Error("the evaluation that waited is lost")
		}
	})
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
				for range 100 {
					began := time.Now()
					r.Evaluation(evaluation(2))
					r.Start(t.Context(), &Record{ID: ID{3, 1}})
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
				if stats.Drops.QueueFull == 0 || stats.LateStarts == 0 || stats.MetricsRejected != 101 || stats.CommitFailures == 0 {
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
				if !s.has(ID{1, 1}) || !s.has(ID{3, 1}) {
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

func TestStartWaitsForTheWrite(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		s.delay = 5 * time.Millisecond
		open(t, r)
		record := &Record{ID: ID{1}, Kind: KindEndpoint, Messages: []byte("[]")}
		began := time.Now()
		if !r.Start(t.Context(), record) || time.Since(began) != s.delay {
			t.Errorf("it returned after %s, the write took %s", time.Since(began), s.delay)
		}
		synctest.Wait()
		if s.records[record.ID] != StateStarted || record.State != StateEnded {
			t.Errorf("stored as %s, the caller's is %s", s.records[record.ID], record.State)
		}
		end := AcquireRecord()
		end.copyFrom(record)
		r.End(end)
		settle(time.Second)
		if s.records[record.ID] != StateEnded {
			t.Errorf("ended as %s", s.records[record.ID])
		}
	})
}

func TestStartWaitsNoLongerThan20ms(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		s.delay = time.Second
		open(t, r)
		began := time.Now()
		if r.Start(t.Context(), &Record{ID: ID{1}}) {
			t.Error("a start that was not written counts as written")
		}
		if waited := time.Since(began); waited != 20*time.Millisecond {
			t.Errorf("the call waited %s", waited)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if r.Start(ctx, &Record{ID: ID{2}}) || time.Since(began) != 20*time.Millisecond {
			t.Error("it waited for a caller who has gone")
		}
		if got := r.Stats().LateStarts; got != 2 {
			t.Errorf("%d late starts", got)
		}
		settle(5 * time.Second)
		if !s.has(ID{1}) || !s.has(ID{2}) {
			t.Error("the late starts were not written")
		}
	})
}

func TestStartsAreNotCommittedWithMetrics(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		s.delay = time.Millisecond
		open(t, r)
		var group sync.WaitGroup
		for n := range byte(50) {
			group.Go(func() {
				if err := r.Metrics(t.Context(), metricsOn(n)); err != nil {
					t.Error(err)
				}
			})
			group.Go(func() {
				if !r.Start(t.Context(), &Record{ID: ID{n, 3}}) {
					t.Error("a start was late")
				}
			})
			group.Go(func() { r.Evaluation(evaluation(n)) })
		}
		group.Wait()
		for _, c := range s.log() {
			if c.starts > 0 && c.metrics > 0 {
				t.Errorf("%+v: a start waited for an fsync", c)
			}
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
		if err := r.Metrics(t.Context(), metricsOn(3)); !errors.Is(err, ErrUnavailable) || time.Since(began) != maxMetricsWait {
			t.Errorf("metrics behind it: %v after %s", err, time.Since(began))
		}
		group.Wait()
		settle(10 * time.Minute)
		if !s.has(ID{1, 2}) {
			t.Error("the commit under way was not finished")
		}
		if s.has(ID{2, 2}) || s.has(ID{3, 2}) {
			t.Error("metrics were stored long after their reporter was told that they were not")
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
		big.Response = make([]byte, MaxRecordSize)
		if r.Evaluation(big) || r.Start(t.Context(), &Record{Response: make([]byte, MaxRecordSize)}) {
			t.Error("a record past the bound is taken")
		}
		r.Versions([]Version{{Version: "a"}, {Version: "b", Content: make([]byte, 1<<20)}})
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
		if err := r.Metrics(t.Context(), large); !errors.Is(err, ErrUnavailable) {
			t.Errorf("metrics past the bound: %v", err)
		}
		group.Wait()
	})
}

func TestVersions(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		r.Versions([]Version{{Version: "a"}, {Version: "b"}})
		open(t, r)
		settle(time.Second)
		if diff := cmp.Diff([]string{"a", "b"}, s.versions); diff != "" {
			t.Error(diff)
		}
	})
}

func TestCloseDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore()
		s.delay = time.Millisecond
		r := NewRecorder(Options{Open: s.open})
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
		if r.Evaluation(evaluation(1)) || r.Start(t.Context(), &Record{}) {
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
		closeRecorder(t, NewRecorder(Options{Open: s.open}))
		if s.opened != 0 {
			t.Error("the store was opened for nothing")
		}
		r := NewRecorder(Options{Open: s.open})
		r.Evaluation(evaluation(1))
		closeRecorder(t, r)
		if !s.has(ID{1, 1}) || s.opened != s.closed {
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
				r := NewRecorder(Options{Open: s.open})
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
		r := NewRecorder(Options{Open: s.open})
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
		if stats := r.Stats(); stats.Availability != Closed || stats.Drops.Failed != 2*maxBatch {
			t.Errorf("%+v", stats)
		}
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
				r := NewRecorder(options)
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

func TestMaintenance(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		s.maintain = func() (bool, error) { return s.maintained%5 != 0, nil }
		open(t, r)
		settle(time.Second)
		if s.maintained != 5 {
			t.Errorf("%d steps, want all 5 that were due", s.maintained)
		}
		// It goes on under load, and so do commits.
		for range 100 {
			settle(time.Second)
			if err := r.Metrics(t.Context(), metricsOn(1)); err != nil {
				t.Fatal(err)
			}
		}
		if s.maintained != 10 {
			t.Errorf("%d steps after 101 s, want 10", s.maintained)
		}
		s.set(func(s *memStore) {
			s.maintain = func() (bool, error) { s.maintain = nil; return false, ErrBroken }
		})
		settle(2 * time.Minute)
		if s.opened != 2 {
			t.Errorf("a store that is broken by its own account was opened %d times", s.opened)
		}
	})
}

func TestOnCommit(t *testing.T) {
	var commits []Commit
	run(t, Options{OnCommit: func(c Commit) { commits = append(commits, c) }}, func(t *testing.T, r *Recorder, s *memStore) {
		s.delay = time.Millisecond
		open(t, r)
		if err := r.Metrics(t.Context(), metricsOn(1)); err != nil {
			t.Fatal(err)
		}
		r.Evaluation(evaluation(1))
		failure := errors.New("disk full")
		s.set(func(s *memStore) {
			s.fail = func(*Batch) error { s.set(func(s *memStore) { s.fail = nil }); return failure }
		})
		settle(time.Second)
		want := []Commit{
			{Duration: time.Millisecond, Len: 1, Durable: true},
			{Duration: time.Millisecond, Len: 1, Err: failure},
			{Duration: time.Millisecond, Len: 1},
		}
		if diff := cmp.Diff(want, commits, cmpopts.EquateErrors()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestBuffersAreTheRecorders fails under the race detector, or by content, when
// the recorder uses what its callers may reuse.
func TestBuffersAreTheRecorders(t *testing.T) {
	s := newMemStore()
	var seen [][]byte
	s.fail = func(b *Batch) error {
		for _, r := range b.Starts {
			seen = append(seen, bytes.Clone(r.Messages))
		}
		for _, m := range b.Metrics {
			seen = append(seen, bytes.Clone(m.Metadata))
			if *m.Score != 1 {
				t.Errorf("the score became %v", *m.Score)
			}
		}
		return nil
	}
	s.delay = 50 * time.Millisecond
	r := NewRecorder(Options{Open: s.open})
	defer closeRecorder(t, r)
	r.Open()
	if _, err := r.TraceKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	buffer, score := []byte("content"), 1.0
	reuse := func() {
		copy(buffer, "garbage")
		score = 2
	}
	r.Start(t.Context(), &Record{Messages: buffer}) // returns long before the commit
	reuse()
	copy(buffer, "content")
	score = 1
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_ = r.Metrics(ctx, &Metrics{Metadata: buffer, Score: &score})
	reuse()
	closeRecorder(t, r)
	for _, content := range seen {
		if string(content) != "content" {
			t.Errorf("stored %q", content)
		}
	}
}

func TestReleasedRecordsAreEmpty(t *testing.T) {
	r := AcquireRecord()
	*r = Record{
		ID: ID{1}, Key: "k", Attempts: []Attempt{{Provider: "p"}}, Notes: []string{"n"}, Metadata: []byte("{}"),
		Context: make([]byte, maxKeptBuffer+1), HasUsage: true, Cost: 1,
	}
	ReleaseRecord(r)
	if diff := cmp.Diff(&Record{}, r, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-empty +released):\n%s", diff)
	}
	if cap(r.Context) != 0 {
		t.Errorf("a buffer of %d bytes is kept", cap(r.Context))
	}
}

func TestConcurrentUse(t *testing.T) {
	s := newMemStore()
	r := NewRecorder(Options{Open: s.open, MaxRecords: 1 << 16, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	r.Open()
	if _, err := r.TraceKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for g := range byte(4) {
		group.Go(func() {
			for n := range 2000 {
				record := evaluation(g)
				record.ID[2], record.ID[3] = byte(n), byte(n>>8)
				record.Metadata = append(record.Metadata[:0], "{}"...)
				r.Evaluation(record)
			}
		})
		group.Go(func() {
			for n := range 200 {
				record := evaluation(g)
				record.ID[2], record.ID[4] = byte(n), 1
				r.Start(t.Context(), record)
				r.End(record)
			}
		})
		group.Go(func() {
			for range 200 {
				if err := r.Metrics(t.Context(), metricsOn(g)); err != nil && !errors.Is(err, ErrUnavailable) {
					t.Error(err)
				}
				r.Stats()
			}
		})
	}
	group.Wait()
	closeRecorder(t, r)
	stats := r.Stats()
	if want := 4 * (2000 + 200); len(s.records)+int(stats.Drops.Total()) != want {
		t.Errorf("%d records stored and %d dropped of %d", len(s.records), stats.Drops.Total(), want)
	}
	if len(s.metrics)+int(stats.MetricsRejected) != 800 {
		t.Errorf("%d metrics stored and %d rejected of 800", len(s.metrics), stats.MetricsRejected)
	}
	if stats.Queued != 0 || stats.QueuedBytes != 0 {
		t.Errorf("%d records of %d bytes wait after Close", stats.Queued, stats.QueuedBytes)
	}
}
