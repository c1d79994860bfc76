package sqlite

import (
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// fillCalls stores count calls of endpoints in the hour before now. A tenth made a second
// attempt, and each has another customer.
func fillCalls(t testing.TB, s *Store, count int, now time.Time) {
	t.Helper()
	authority := mustAuthority(t)
	const size = 4096
	for n := 0; n < count; {
		batch := recorder.Batch{}
		for range min(size, count-n) {
			at := now.Add(-time.Hour + time.Duration(n)*time.Hour/time.Duration(count))
			r := &trace.Record{
				ID: authority.New(trace.KindEndpoint, at), Time: at, Workspace: "default", Kind: trace.KindEndpoint, Key: "key_" + strconv.Itoa(n%40),
				APIKey: "app_" + strconv.Itoa(n%5), Version: "0123456789ab", Revision: "0123456789ab", Reason: "match", Row: "row 1", Variant: "en", Arm: "en",
				Status: 200, FinishReason: "stop", Provider: "openai", Model: "gpt-4o-mini", Latency: 900 * time.Millisecond, FirstToken: 200 * time.Millisecond,
				HasUsage: true, PromptTokens: 900, CompletionTokens: 120, TotalTokens: 1020, Cost: 0.0002,
				Metadata: fmt.Appendf(nil, `{"customer":"c%d","turn":%d,"plan":"pro"}`, n, n%9),
			}
			if n%10 == 0 {
				r.Attempts = append(r.Attempts, trace.Attempt{Provider: "azure", Model: "gpt-4o", Status: 500, Code: "server", Error: "status 500: the server had an error", Latency: 300 * time.Millisecond})
			}
			r.Attempts = append(r.Attempts, trace.Attempt{
				Provider: "openai", Model: "gpt-4o-mini", Status: 200, Latency: 600 * time.Millisecond, Started: 300 * time.Millisecond, FirstToken: 200 * time.Millisecond,
				PromptTokens: 900, CompletionTokens: 120, UsageDetails: trace.UsageDetails{CachedTokens: 512}, Cost: 0.0002,
			})
			batch.Records = append(batch.Records, r)
			n++
		}
		mustCommit(t, s, batch)
	}
}

// BenchmarkCosts sums the costs of 200,000 calls, by model, and by a member of the metadata
// with another value in each.
func BenchmarkCosts(b *testing.B) {
	const count = 200_000
	s := mustOpen(b, Config{Path: filepath.Join(b.TempDir(), "a.db")})
	fillCalls(b, s, count, time.Now())
	for _, by := range []string{"model", "metadata.customer"} {
		b.Run(by, func(b *testing.B) {
			b.ReportAllocs()
			began := processorTime(b)
			for b.Loop() {
				costs, err := SumCosts(b.Context(), []CostSource{{s.Reader, "default"}}, CostQuery{By: []string{by}})
				if err != nil || costs.Total.Calls != count {
					b.Fatalf("%+v, %v", costs.Total, err)
				}
			}
			b.ReportMetric(float64(processorTime(b)-began)/float64(b.N*count), "cpu-ns/call")
		})
	}
}
