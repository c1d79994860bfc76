package sqlite

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// BenchmarkShared shows for which sizes, and for how many answers of a request, it pays to
// store shared members once.
func BenchmarkShared(b *testing.B) {
	for _, answers := range []int{2, 10, 100} {
		for _, size := range []int{64, 256, 1024, 16 << 10} {
			for _, once := range []bool{false, true} {
				b.Run(fmt.Sprintf("answers=%d/bytes=%d/once=%t", answers, size, once), func(b *testing.B) {
					benchmarkShared(b, answers, size, once)
				})
			}
		}
	}
}

func benchmarkShared(b *testing.B, answers, size int, once bool) {
	s := mustOpen(b, Config{Path: filepath.Join(b.TempDir(), "a.db")})
	authority, now := mustAuthority(b), time.Now()
	metadata := fmt.Appendf(nil, `{"text":"%s"}`, bytes.Repeat([]byte("x"), size-11))
	batch := recorder.Batch{Records: make([]*trace.Record, 200/answers*answers)}
	b.ReportAllocs()
	before, rows := processorTime(b), 0
	for b.Loop() {
		var shared *trace.Shared
		var decision trace.ID
		for i := range batch.Records {
			r := trace.AcquireRecord()
			fillBare(r, authority.New(trace.KindRemoteConfig, now), now)
			if !once {
				r.Metadata = append(r.Metadata[:0], metadata...)
			} else {
				if i%answers == 0 {
					shared = &trace.Shared{Metadata: metadata}
					decision = authority.New(trace.KindDecision, now)
				}
				r.Decision, r.Shared = decision, shared
			}
			batch.Records[i] = r
		}
		mustCommit(b, s, batch)
		for _, r := range batch.Records {
			trace.ReleaseRecord(r)
		}
		rows += len(batch.Records)
	}
	b.ReportMetric(float64(processorTime(b)-before)/float64(rows), "cpu-ns/row")
}
