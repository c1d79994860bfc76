package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// BenchmarkCommit shows the benefit of batches: rows committed with (metrics) and without
// (records) a sync of each batch.
func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("records/batch=%d", size), func(b *testing.B) {
			benchmarkCommit(b, size, func(batch *recorder.Batch, id trace.ID, now time.Time) {
				r := new(trace.Record)
				fillEvaluation(r, id, now)
				batch.Records = append(batch.Records, r)
			}, func(batch *recorder.Batch, i int, id trace.ID) { batch.Records[i].ID = id })
		})
		b.Run(fmt.Sprintf("metrics/batch=%d", size), func(b *testing.B) {
			benchmarkCommit(b, size, func(batch *recorder.Batch, id trace.ID, now time.Time) {
				batch.Metrics = append(batch.Metrics, &trace.Metrics{
					TraceID: id, Workspace: "default", APIKey: "app", Time: now, Score: new(90.0), Metadata: []byte(`{"n":1}`),
				})
			}, func(batch *recorder.Batch, i int, id trace.ID) { batch.Metrics[i].TraceID = id })
		})
		b.Run(fmt.Sprintf("metrics with keys/batch=%d", size), func(b *testing.B) {
			benchmarkCommit(b, size, func(batch *recorder.Batch, id trace.ID, now time.Time) {
				batch.Metrics = append(batch.Metrics, &trace.Metrics{
					TraceID: id, Workspace: "default", APIKey: "app", Time: now, Score: new(90.0), Metadata: []byte(`{"n":1}`),
					Reply: replyOf("", 1, now),
				})
			}, func(batch *recorder.Batch, i int, id trace.ID) {
				batch.Metrics[i].TraceID, batch.Metrics[i].Reply.Key = id, id.String()
			})
		})
	}
}

func benchmarkCommit(b *testing.B, size int, add func(*recorder.Batch, trace.ID, time.Time), renew func(*recorder.Batch, int, trace.ID)) {
	s := mustOpen(b, Config{Path: filepath.Join(b.TempDir(), "a.db")})
	authority, now := mustAuthority(b), time.Now()
	var batch recorder.Batch
	for range size {
		add(&batch, trace.ID{}, now)
	}
	rows := 0
	b.ReportAllocs()
	before := processorTime(b)
	for b.Loop() {
		for i := range size {
			renew(&batch, i, authority.New(trace.KindPrompt, now))
		}
		mustCommit(b, s, batch)
		rows += size
	}
	b.ReportMetric(float64(processorTime(b)-before)/float64(rows), "cpu-ns/row")
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkRecording records evaluations: their ids, filling the records, the queue, the
// seals and the rows, at a rate that the writer keeps up with.
func BenchmarkRecording(b *testing.B) {
	for name, sealer := range map[string]*trace.Sealer{"sealed=true": mustSealer(b), "sealed=false": nil} {
		b.Run(name, func(b *testing.B) { benchmarkRecording(b, sealer) })
	}
}

func benchmarkRecording(b *testing.B, sealer *trace.Sealer) {
	r := openRecorder(b, Config{Path: filepath.Join(b.TempDir(), "a.db")})
	authority := mustAuthority(b)
	before, count := processorTime(b), 0
	b.ReportAllocs()
	for b.Loop() {
		for r.Stats().Queued > 8192 {
			time.Sleep(time.Millisecond)
		}
		for range 256 {
			now := time.Now()
			record := trace.AcquireRecord()
			fillEvaluation(record, authority.New(trace.KindPrompt, now), now)
			record.Sealer = sealer
			if !r.Evaluation(record) {
				b.Fatal("dropped")
			}
		}
		count += 256
	}
	for r.Stats().Queued > 0 {
		time.Sleep(time.Millisecond)
	}
	b.ReportMetric(float64(processorTime(b)-before)/float64(count), "cpu-ns/evaluation")
	b.ReportMetric(float64(count)/b.Elapsed().Seconds(), "evaluations/s")
}

// BenchmarkMetrics has many reporters report metrics at once: 64 on two processors. A
// report alone has a commit and a sync to itself.
func BenchmarkMetrics(b *testing.B) {
	r := openRecorder(b, Config{Path: filepath.Join(b.TempDir(), "a.db")})
	authority := mustAuthority(b)
	var count atomic.Int64
	b.SetParallelism(32)
	b.ReportAllocs()
	before := processorTime(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := r.Metrics(b.Context(), metricsOf(authority.New(trace.KindPrompt, time.Now()))); err != nil {
				b.Error(err)
			}
			count.Add(1)
		}
	})
	b.ReportMetric(float64(processorTime(b)-before)/float64(count.Load()), "cpu-ns/record")
	b.ReportMetric(float64(count.Load())/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(count.Load())/float64(r.Stats().Commits), "records/commit")
}

// BenchmarkStart shows how long upstream calls wait for their start records, one call after
// the other, and how many stopped waiting.
func BenchmarkStart(b *testing.B) {
	r := openRecorder(b, Config{Path: filepath.Join(b.TempDir(), "a.db")})
	authority, late := mustAuthority(b), 0
	b.ReportAllocs()
	for b.Loop() {
		now := time.Now()
		record := trace.AcquireRecord()
		fillEvaluation(record, authority.New(trace.KindEndpoint, now), now)
		if !r.Start(b.Context(), record) {
			late++
		}
		r.End(record)
	}
	b.ReportMetric(float64(late)/float64(b.N), "late/op")
}

// BenchmarkReply looks replies up among 100,000.
func BenchmarkReply(b *testing.B) {
	s := mustOpen(b, Config{Path: filepath.Join(b.TempDir(), "a.db")})
	now := time.Now()
	const kept = 100_000
	for n := 0; n < kept; {
		var batch recorder.Batch
		for range 1000 {
			batch.Replies = append(batch.Replies, replyOf(fmt.Sprint("3f0c9c1e-6b1f-4f9e-9a53-", n), 1, now))
			n++
		}
		mustCommit(b, s, batch)
	}
	for _, found := range []bool{true, false} {
		b.Run(fmt.Sprintf("found=%t", found), func(b *testing.B) {
			b.ReportAllocs()
			prefix := "3f0c9c1e-6b1f-4f9e-9a53-"
			if !found {
				prefix = "3f0c9c1e-6b1f-4f9e-9a54-"
			}
			n := 0
			for b.Loop() {
				n = (n + 7919) % kept
				reply, err := s.Reply(b.Context(), replyOf(fmt.Sprint(prefix, n), 1, now).ReplyKey, now)
				if err != nil || (reply != nil) != found {
					b.Fatal(reply, err)
				}
			}
		})
	}
}

// BenchmarkEdit commits a set of 1,000 files with one edited, to a store that has the most
// sets it may.
func BenchmarkEdit(b *testing.B) {
	s := mustOpen(b, Config{Path: filepath.Join(b.TempDir(), "traces.db")})
	set := recorder.Revision{Workspace: "w", Directory: "/srv/definitions"}
	for i := range 1000 {
		set.Files = append(set.Files, fileOf(fmt.Sprintf("remoteconfigs/group-%d/c%d.yaml", i%20, i), fmt.Sprint(i, strings.Repeat(" # of a definition", 100))))
	}
	edit := func(n int) {
		set.Revision = fmt.Sprintf("%012x", n)
		set.Files[n%1000] = fileOf(set.Files[n%1000].Path, fmt.Sprint("edited ", n, strings.Repeat(" # of a definition", 100)))
		if err := s.Commit(context.Background(), &recorder.Batch{Revisions: []*recorder.Revision{&set}}); err != nil {
			b.Fatal(err)
		}
	}
	for n := range maxRevisions {
		edit(n)
	}
	b.Run("commit", func(b *testing.B) {
		for n := maxRevisions; b.Loop(); n++ {
			edit(n)
		}
	})
	b.Run("sweep", func(b *testing.B) {
		for b.Loop() {
			if err := s.shared.transact(s.writer.repeat, s.sweep); err != nil {
				b.Fatal(err)
			}
		}
	})
}
