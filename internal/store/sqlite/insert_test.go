package sqlite

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// Several rows are inserted by one statement, and the remaining rows one by one.
func TestBatchesOfAnySizeAreStored(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	authority, at := mustAuthority(t), time.UnixMilli(1790000000123)
	limit := rowsAtOnce[0]
	for _, size := range []int{1, limit - 1, limit, limit + 1, 3*limit + 5} {
		var batch recorder.Batch
		for n := range size {
			whole := fullRecord(authority.New(trace.KindEndpoint, at), at)
			whole.Key = fmt.Sprint("whole", n)
			answer := &trace.Record{
				ID: authority.New(trace.KindPrompt, at), Time: at, Workspace: "default", Kind: trace.KindPrompt,
				Key: fmt.Sprint("answer", n), Context: fmt.Appendf(nil, `{"n":%d}`, n),
			}
			batch.Records = append(batch.Records, whole, answer)
			batch.Interrupted = append(batch.Interrupted, startOf(authority.New(trace.KindEndpoint, at), at))
			batch.Metrics = append(batch.Metrics, &trace.Metrics{TraceID: answer.ID, Workspace: "default", Time: at, Score: new(float64(n))})
		}
		mustCommit(t, s, batch)
		mustHave(t, s, append(batch.Records, batch.Interrupted...))
		for _, want := range batch.Metrics {
			got, err := s.MetricsFor(t.Context(), want.TraceID)
			if err != nil || len(got) != 1 || *got[0].Score != *want.Score {
				t.Errorf("of %d: %+v, %v", size, got, err)
			}
		}
	}
}

// mustHave reads records, which must be as they were stored.
func mustHave(t *testing.T, s *Store, records []*trace.Record) {
	t.Helper()
	for i, want := range records {
		got, err := s.Trace(t.Context(), want.ID)
		if err != nil {
			t.Fatalf("%d of %d: %v", i, len(records), err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%d of %d: %s (-stored +read):\n%s", i, len(records), want.Key, diff)
		}
	}
}

// maxRowAllocations bounds the allocations of a batch of 256 rows.
const maxRowAllocations = 8

// Recording hardly allocates: values go from the records to SQLite without conversion.
func TestAllocationsOfABatch(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	mustKeep(t, s) // nothing else allocates
	authority, now := mustAuthority(t), time.Now()
	for name, add := range map[string]func(*recorder.Batch){
		"records": func(b *recorder.Batch) {
			r := new(trace.Record)
			fillEvaluation(r, authority.New(trace.KindPrompt, now), now)
			b.Records = append(b.Records, r)
		},
		"metrics": func(b *recorder.Batch) {
			b.Metrics = append(b.Metrics, metricsOf(authority.New(trace.KindPrompt, now)))
		},
	} {
		var batch recorder.Batch
		for range 256 {
			add(&batch)
		}
		got := testing.AllocsPerRun(10, func() {
			for _, r := range batch.Records {
				r.ID = authority.New(trace.KindPrompt, now)
			}
			mustCommit(t, s, batch)
		})
		if got > maxRowAllocations {
			t.Errorf("256 %s: %v allocations, at most %d are allowed", name, got, maxRowAllocations)
		}
	}
}

// The rows of a batch that failed must not come with the next one.
func TestFailedBatchLeavesNothing(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db"), maxPages: 80})
	authority, at := mustAuthority(t), time.UnixMilli(1790000000123)
	batch := func(count, size int) recorder.Batch {
		var b recorder.Batch
		for range count {
			record := &trace.Record{ID: authority.New(trace.KindPrompt, at), Time: at, Workspace: "default", Kind: trace.KindPrompt, Key: "k"}
			record.Response = bytes.Repeat([]byte("x"), size)
			b.Records = append(b.Records, record)
			b.Metrics = append(b.Metrics, metricsOf(record.ID))
		}
		return b
	}
	tooMuch := batch(rowsAtOnce[0]+5, 1<<20)
	whole := fullRecord(authority.New(trace.KindEndpoint, at), at) // it waits when the others fail
	tooMuch.Records = append([]*trace.Record{whole}, tooMuch.Records...)
	if err := s.Commit(t.Context(), &tooMuch); err == nil {
		t.Fatal("a full disk took it")
	}
	mustCommit(t, s, batch(2, 1))
	if counts, err := s.Counts(t.Context()); err != nil || counts != (Counts{Traces: 2, Metrics: 2}) {
		t.Errorf("%+v, %v; want 2 of each", counts, err)
	}
}
