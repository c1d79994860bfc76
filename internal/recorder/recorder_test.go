package recorder

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/cadenza-gateway/cadenza/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run tests a recorder on a store in memory, in a bubble of its own time.
func run(t *testing.T, options Options, test func(t *testing.T, r *Recorder, s *memStore)) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore()
		options := options
		options.Open = s.open
		options.Calls = filepath.Join(t.TempDir(), "a.db")
		r := New(options)
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

// settle sleeps for d and makes the recorder do the work then due. The test may
// look at the result without a lock afterwards.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func evaluation(n byte) *trace.Record {
	r := trace.AcquireRecord()
	r.ID = trace.ID{n, 1}
	r.Kind = trace.KindPrompt
	return r
}

func metricsOn(n byte) *trace.Metrics { return &trace.Metrics{TraceID: trace.ID{n, 2}} }

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
		want := []committed{{at: began.Add(250 * time.Millisecond), records: 10}}
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

// TestABatchIsOneCommit sends more metrics at once than a commit takes of single ones, and
// more than wait at a time. Each finds out whether it was stored before.
func TestABatchIsOneCommit(t *testing.T) {
	run(t, Options{MaxMetrics: 3 * maxBatch}, func(t *testing.T, r *Recorder, s *memStore) {
		open(t, r)
		batch := func(n int) (all []*trace.Metrics) {
			for i := range n {
				all = append(all, metricsOn(byte(i)))
			}
			return all
		}
		s.fail = func(b *Batch) error {
			for i, m := range b.Metrics {
				m.Repeated = i%2 == 1
			}
			return nil
		}
		all := batch(2 * maxBatch)
		if err := r.AllMetrics(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		for i, m := range all {
			if m.Repeated != (i%2 == 1) {
				t.Fatalf("metrics %d: repeated %t", i, m.Repeated)
			}
		}
		if err := r.AllMetrics(t.Context(), batch(4*maxBatch)); !errors.Is(err, ErrUnavailable) {
			t.Errorf("more than may wait: %v", err)
		}
		if err := r.Metrics(t.Context(), metricsOn(1)); err != nil {
			t.Errorf("after it: %v", err)
		}
		if log := s.log(); len(log) != 2 || log[0].metrics != 2*maxBatch || log[1].metrics != 1 {
			t.Errorf("commits %+v", log)
		}
		if used := r.queue.shares.share("").used[durableCount]; used != 0 {
			t.Errorf("%d places stay taken", used)
		}
	})
}

// TestMetricsShareACommitOnOneProcessor has commits that take no time: nothing can
// gather meanwhile.
func TestMetricsShareACommitOnOneProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
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
		if log := s.log(); len(log) > 25 {
			t.Errorf("%d commits for 100 metrics that came together", len(log))
		}
	})
}

func TestVersions(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		r.Versions([]trace.Version{{Version: "a"}, {Version: "b"}})
		open(t, r)
		settle(time.Second)
		if diff := cmp.Diff([]string{"a", "b"}, s.versions); diff != "" {
			t.Error(diff)
		}
		closeRecorder(t, r)
		r.Versions([]trace.Version{{Version: "c"}, {Version: "d"}})
		if drops := r.Stats().Drops; drops.Closed != 2 || drops.Total() != 2 {
			t.Errorf("after the end: %+v", drops)
		}
	})
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
// the recorder uses memory that its callers may reuse.
func TestBuffersAreTheRecorders(t *testing.T) {
	s := newMemStore()
	var seen [][]byte
	begun, reused := make(chan struct{}), make(chan struct{})
	s.fail = func(b *Batch) error {
		close(begun)
		<-reused
		for _, m := range b.Metrics {
			seen = append(seen, bytes.Clone(m.Metadata), bytes.Clone(m.Values))
		}
		return nil
	}
	r := New(Options{Open: s.open})
	defer closeRecorder(t, r)
	r.Open()
	if _, err := r.TraceKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	buffer := []byte("content")
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-begun
		leave()
	}()
	if err := r.Metrics(ctx, &trace.Metrics{Metadata: buffer, Values: buffer}); !errors.Is(err, context.Canceled) {
		t.Errorf("a report whose caller left: %v", err)
	}
	copy(buffer, "garbage")
	close(reused)
	closeRecorder(t, r)
	if len(seen) != 2 {
		t.Fatalf("%d contents were stored", len(seen))
	}
	for _, content := range seen {
		if string(content) != "content" {
			t.Errorf("stored %q", content)
		}
	}
}

// TestResultOfAnAbandonedReport: a caller that leaves at the moment at which its
// report's commit fails gets that failure.
func TestResultOfAnAbandonedReport(t *testing.T) {
	failed := errors.New("disk full")
	w := &waitingDurable{result: make(chan error, 1)}
	if err := new(Recorder).abandon(w, context.Canceled); err != context.Canceled {
		t.Errorf("without a result: %v", err)
	}
	w.result <- failed
	if err := new(Recorder).abandon(w, context.Canceled); err != failed {
		t.Errorf("with one: %v", err)
	}
}

func TestConcurrentUse(t *testing.T) {
	s := newMemStore()
	r := New(Options{Open: s.open, Calls: filepath.Join(t.TempDir(), "a.db"), MaxRecords: 1 << 16, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
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

// TestFlushWaitsForRefusals: an erasure that follows finds them.
func TestFlushWaitsForRefusals(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, _ *memStore) {
		r.Refused(RefusalID{Workspace: "a", Code: "rate_limited"}, time.Now(), "no", "", strings.Clone)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the store is not open: %v", err)
		}
		open(t, r)
		if err := r.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		if r.queue.refusals.waiting() > 0 {
			t.Error("a refusal still waits")
		}
		r.Refused(RefusalID{Workspace: "a", Code: "rate_limited"}, time.Now(), "no", "", strings.Clone)
		r.Evaluation(evaluation(1))
		if err := r.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		r.queue.mu.Lock()
		defer r.queue.mu.Unlock()
		if r.queue.settled != r.queue.pushed {
			t.Errorf("%d of %d are settled", r.queue.settled, r.queue.pushed)
		}
	})
}

func TestFlushWaitsForWhatCameBefore(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		if err := r.Flush(t.Context()); err != nil {
			t.Errorf("nothing to wait for: %v", err)
		}
		for n := range byte(3) {
			r.Evaluation(evaluation(n + 1))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the store is not open: %v", err)
		}
		open(t, r)
		if err := r.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		stored := len(s.records)
		s.mu.Unlock()
		if stored != 3 {
			t.Errorf("%d of 3 records are stored", stored)
		}
	})
}
