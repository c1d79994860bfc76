package sqlite

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

func TestRetention(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path, CurrentRetention: always(48 * time.Hour)})
	authority := mustAuthority(t)
	now := time.Now()
	commit := func(age time.Duration, count int) (ids []trace.ID) {
		t.Helper()
		var batch recorder.Batch
		at := now.Add(-age)
		for range count {
			r := fullRecord(authority.New(trace.KindPrompt, at), at)
			r.Response = bytes.Repeat([]byte("x"), 1000)
			batch.Records = append(batch.Records, r)
			batch.Metrics = append(batch.Metrics, metricsOf(r.ID))
			ids = append(ids, r.ID)
		}
		mustCommit(t, s, batch)
		return ids
	}
	const oldCount = 2*deleteRows + 7
	commit(50*time.Hour, oldCount)
	kept := append(commit(47*time.Hour, 3), commit(0, 3)...)
	before := fileSize(t, s)

	steps := 0
	for more := true; more; steps++ {
		var err error
		if more, err = s.Maintain(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		counts, err := s.Counts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want := max(oldCount-(steps+1)*deleteRows, 0) + len(kept); counts.Traces != int64(want) || counts.Metrics != int64(want) {
			t.Errorf("after step %d: %+v, want %d of each", steps+1, counts, want)
		}
	}
	if steps < 3 {
		t.Errorf("it took %d steps; they are not small", steps)
	}
	for _, id := range kept {
		if _, err := s.Trace(t.Context(), id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		if metrics, err := s.MetricsFor(t.Context(), id); err != nil || len(metrics) != 1 {
			t.Errorf("%s: %d metrics, %v", id, len(metrics), err)
		}
	}
	if after := fileSize(t, s); after >= before {
		t.Errorf("the file has %d bytes after the deletion, %d before", after, before)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// fileSize returns the size of the file once the log is copied into it.
func fileSize(t *testing.T, s *Store) int64 {
	t.Helper()
	waitFor(t, "a checkpoint that nothing is in the way of", func() bool {
		var busy, length, copied int
		if err := s.conn.QueryRowContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &length, &copied); err != nil {
			t.Fatal(err)
		}
		return busy == 0
	})
	info, err := os.Stat(s.path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestRetentionMayChange(t *testing.T) {
	var retention time.Duration
	s := mustOpen(t, Config{
		Path:             filepath.Join(t.TempDir(), "a.db"),
		CurrentRetention: func() time.Duration { return retention },
	})
	now := time.Now()
	at := now.Add(-2 * time.Hour)
	record := fullRecord(mustAuthority(t).New(trace.KindPrompt, at), at)
	mustCommit(t, s, recorder.Batch{Records: []*trace.Record{record}})
	for _, step := range []struct {
		retention time.Duration
		want      int64
	}{{0, 1}, {3 * time.Hour, 1}, {time.Hour, 0}} {
		retention = step.retention
		if _, err := s.Maintain(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if counts, err := s.Counts(t.Context()); err != nil || counts.Traces != step.want {
			t.Errorf("kept for %s: %+v (%v), want %d traces", retention, counts, err, step.want)
		}
	}
}

func TestNoRetentionKeepsEverything(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	at := time.UnixMilli(0)
	record := fullRecord(mustAuthority(t).New(trace.KindPrompt, at), at)
	mustCommit(t, s, recorder.Batch{Records: []*trace.Record{record}})
	if more, err := s.Maintain(t.Context(), time.Now()); more || err != nil {
		t.Errorf("%v, %v", more, err)
	}
	if _, err := s.Trace(t.Context(), record.ID); err != nil {
		t.Error(err)
	}
}

func TestClockGuard(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	type step struct {
		wall, uptime time.Duration // since the start
		want         bool
	}
	tests := map[string]struct {
		newest time.Time
		steps  []step
	}{
		"a new store":        {time.Time{}, []step{{0, 0, true}, {time.Minute, time.Minute, true}}},
		"after a short stop": {start.Add(-time.Hour), []step{{0, 0, true}, {time.Minute, time.Minute, true}}},
		"after a long stop": {start.Add(-3 * day), []step{
			{0, 0, false}, {9 * time.Minute, 9 * time.Minute, false}, {10 * time.Minute, 10 * time.Minute, true}, {11 * time.Minute, 11 * time.Minute, true},
		}},
		"idle for days": {start, []step{{0, 0, true}, {3 * day, 3 * day, true}}},
		"a jump ahead": {start, []step{
			{0, 0, true}, {3*day + time.Minute, time.Minute, false}, {3*day + 2*time.Minute, 2 * time.Minute, false}, {3*day + 11*time.Minute, 11 * time.Minute, true},
		}},
		"a jump ahead and back": {start, []step{
			{0, 0, true}, {3*day + time.Minute, time.Minute, false}, {2 * time.Minute, 2 * time.Minute, false}, {12 * time.Minute, 12 * time.Minute, true},
		}},
		"a jump back": {start, []step{{0, 0, true}, {-3 * day, time.Minute, true}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var guard clockGuard
			for _, step := range test.steps {
				if got := guard.trust(start.Add(step.wall), step.uptime, test.newest); got != step.want {
					t.Errorf("clock %s ahead after %s: %v, want %v", step.wall, step.uptime, got, step.want)
				}
			}
		})
	}
}
