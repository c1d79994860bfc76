package sqlite

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

// BenchmarkCalls records upstream calls, their starts and ends and the writer's share: as
// many at once as possible, and 500 a second.
func BenchmarkCalls(b *testing.B) {
	for _, content := range []int{0, 4 << 10} {
		for _, pause := range []time.Duration{0, 2 * time.Millisecond} {
			b.Run(fmt.Sprintf("content=%d/pause=%s", content, pause), func(b *testing.B) {
				path := filepath.Join(b.TempDir(), "a.db")
				r := openRecorder(b, Config{Path: path})
				key, err := r.TraceKey(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				authority, err := trace.NewAuthority(key, "default")
				if err != nil {
					b.Fatal(err)
				}
				text := bytes.Repeat([]byte("x"), content)
				b.ReportAllocs()
				before := processorTime(b)
				for b.Loop() {
					now := time.Now()
					record := trace.AcquireRecord()
					fillBare(record, authority.New(trace.KindEndpoint, now), now)
					record.Messages = append(record.Messages[:0], text...)
					r.Start(b.Context(), record)
					r.End(record)
					time.Sleep(pause)
				}
				if err := r.Flush(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
				b.ReportMetric(float64(r.Stats().Drops.Total())/float64(b.N), "dropped/op")
			})
		}
	}
}
