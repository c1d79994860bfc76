package sqlite

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// BenchmarkStored shows all that a trace costs the store, with statistics and index, by the
// number of keys that the traces have: with one member of metadata, and with as many as
// users have. There are 500 a second.
//
//	go test ./internal/store/sqlite -run '^$' -bench Stored -benchtime 300x -count 3
func BenchmarkStored(b *testing.B) {
	for _, keys := range []int{1, 1000} {
		b.Run(fmt.Sprintf("evaluations/keys=%d", keys), func(b *testing.B) {
			benchmarkStored(b, keys, func(batch *recorder.Batch, id trace.ID, at time.Time) {
				r := new(trace.Record)
				fillEvaluation(r, id, at)
				batch.Records = append(batch.Records, r)
			})
		})
		b.Run(fmt.Sprintf("users/keys=%d", keys), func(b *testing.B) {
			made := newMillions(b)
			benchmarkStored(b, keys, func(batch *recorder.Batch, id trace.ID, at time.Time) {
				r := new(trace.Record)
				fillEvaluation(r, id, at)
				r.Metadata = append(r.Metadata[:0], made.newMetadata()...)
				batch.Records = append(batch.Records, r)
			})
		})
	}
}

func benchmarkStored(b *testing.B, keys int, add func(*recorder.Batch, trace.ID, time.Time)) {
	s := mustOpen(b, Config{Path: filepath.Join(b.TempDir(), "a.db")})
	k := mustKeep(b, s)
	authority, at, rows := mustAuthority(b), time.Now(), 0
	used := int64(0)
	for b.Loop() {
		var batch recorder.Batch
		for range 256 {
			at = at.Add(2 * time.Millisecond)
			add(&batch, authority.New(trace.KindPrompt, at), at)
			batch.Records[len(batch.Records)-1].Key = fmt.Sprintf("key-%d", rows*7919%keys)
			rows++
		}
		before := processorTime(b)
		mustCommit(b, s, batch)
		if rows%16384 == 0 {
			for more := true; more; {
				var err error
				if more, err = k.step(b.Context(), at.Add(time.Minute)); err != nil {
					b.Fatal(err)
				}
			}
		}
		used += processorTime(b) - before
	}
	b.ReportMetric(float64(used)/float64(rows), "cpu-ns/trace")
}
