package sqlite

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// BenchmarkFindingByKey measures what a trace costs that is to be found by its
// key and by its API key: by posting lists, of which one write has those of many
// traces, or by two indexes, to which each commit writes.
//
//	go test ./internal/store/sqlite -run '^$' -bench FindingByKey -benchtime 300x -count 3
//
// The indexes lose where there are many keys: the 256 traces of a commit are then
// in as many places of each index, and every page that changes goes to the log.
// Least of three runs on two shared cores, CPU of the process for each trace:
//
//	            postings   indexes
//	1 key         6.9 µs    6.8 µs
//	1,000 keys    8.3 µs   15.4 µs
func BenchmarkFindingByKey(b *testing.B) {
	for _, keys := range []int{1, 1000} {
		b.Run(fmt.Sprintf("postings/keys=%d", keys), func(b *testing.B) { benchmarkFinding(b, keys, "") })
		b.Run(fmt.Sprintf("indexes/keys=%d", keys), func(b *testing.B) {
			benchmarkFinding(b, keys, `
CREATE INDEX traces_key ON traces (workspace, key, id);
CREATE INDEX traces_api_key ON traces (workspace, api_key, id)`)
		})
	}
}

func benchmarkFinding(b *testing.B, keys int, indexes string) {
	s := mustOpen(b, Config{Path: filepath.Join(b.TempDir(), "a.db")})
	k := mustKeep(b, s)
	if _, err := k.db.ExecContext(b.Context(), indexes); err != nil {
		b.Fatal(err)
	}
	authority := mustAuthority(b)
	var batch recorder.Batch
	for range 256 {
		batch.Records = append(batch.Records, new(trace.Record))
	}
	rows, before := 0, processorTime(b)
	for b.Loop() {
		now := time.Now()
		for _, r := range batch.Records {
			fillEvaluation(r, authority.New(trace.KindPrompt, now), now)
			r.Key = fmt.Sprintf("key-%d", rows*7919%keys)
			rows++
		}
		if err := s.Commit(b.Context(), &batch); err != nil {
			b.Fatal(err)
		}
	}
	if indexes == "" {
		post(b, k, rows)
	}
	b.ReportMetric(float64(processorTime(b)-before)/float64(rows), "cpu-ns/trace")
}

// post writes the postings of the first traces, of so many rows.
func post(b *testing.B, k *statsKeeper, rows int) {
	for k.posting.until < int64(rows) {
		if _, err := k.posting.catchUp(b.Context(), k.db, int64(rows)); err != nil {
			b.Fatal(err)
		}
		if err := k.writePostings(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
