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

// Rows go in several to a statement; what is left over goes in alone.
func TestBatchesOfAnySizeAreStored(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	authority, at := mustAuthority(t), time.UnixMilli(1790000000123)
	for _, size := range []int{1, rowsAtOnce - 1, rowsAtOnce, rowsAtOnce + 1, 3*rowsAtOnce + 5} {
		var batch recorder.Batch
		for n := range size {
			whole := fullRecord(authority.New(trace.KindEndpoint, at), at)
			whole.Key = fmt.Sprint("whole", n)
			answer := &trace.Record{
				ID: authority.New(trace.KindPrompt, at), Time: at, Workspace: "default", Kind: trace.KindPrompt,
				Key: fmt.Sprint("answer", n), Context: fmt.Appendf(nil, `{"n":%d}`, n),
			}
			batch.Records = append(batch.Records, whole, answer)
			batch.Starts = append(batch.Starts, startOf(authority.New(trace.KindEndpoint, at), at))
			batch.Metrics = append(batch.Metrics, &trace.Metrics{TraceID: answer.ID, Workspace: "default", Time: at, Score: new(float64(n))})
		}
		mustCommit(t, s, batch)
		for _, want := range append(batch.Records, batch.Starts...) {
			got, err := s.Trace(t.Context(), want.ID)
			if err != nil {
				t.Fatalf("of %d: %v", size, err)
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("of %d: %s (-stored +read):\n%s", size, want.Key, diff)
			}
		}
		for _, want := range batch.Metrics {
			got, err := s.MetricsFor(t.Context(), want.TraceID)
			if err != nil || len(got) != 1 || *got[0].Score != *want.Score {
				t.Errorf("of %d: %+v, %v", size, got, err)
			}
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
	tooMuch := batch(rowsAtOnce+5, 1<<20)
	whole := fullRecord(authority.New(trace.KindEndpoint, at), at) // which waits when the others fail
	tooMuch.Records = append([]*trace.Record{whole}, tooMuch.Records...)
	if err := s.Commit(t.Context(), &tooMuch); err == nil {
		t.Fatal("a full disk took it")
	}
	mustCommit(t, s, batch(2, 1))
	if counts, err := s.Counts(t.Context()); err != nil || counts != (Counts{Traces: 2, Metrics: 2}) {
		t.Errorf("%+v, %v; want 2 of each", counts, err)
	}
}
