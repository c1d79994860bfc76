package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestHighest reads lists of the dearest and the slowest page by page: the few traces of a
// key, which are sorted as they are, and those of all keys, which are read by the index.
func TestHighest(t *testing.T) {
	alone(t)
	t.Parallel()
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	authority, now := mustAuthority(t), time.Now().Truncate(time.Millisecond)
	var batch recorder.Batch
	for i := range 2*fewEnough + highestWindow {
		at := now.Add(time.Duration(i) * time.Millisecond)
		r := &trace.Record{
			ID: authority.New(trace.KindEndpoint, at), Time: at, Workspace: "w", Kind: trace.KindEndpoint, Key: "common",
			Cost: float64(i%7) / 10, Latency: time.Duration(i%50) * time.Millisecond,
		}
		if i%100 == 0 {
			r.Key = "seldom"
		}
		if i%501 == 1 {
			r.Workspace = "other"
			r.Cost, r.Latency = 99, time.Hour
		}
		batch.Records = append(batch.Records, r)
	}
	mustCommit(t, s, batch)
	until := now.Add(fewEnough * time.Millisecond)
	for name, f := range map[string]trace.Filter{"all": {}, "few": {Key: "seldom"}, "a time": {Until: until}, "a short time": {Since: until}} {
		f.Workspace = "w"
		for _, by := range []*Highest{ByCost, ByLatency} {
			want := 0
			for _, r := range batch.Records {
				if r.Workspace == "w" && (f.Key == "" || r.Key == f.Key) && (f.Until.IsZero() || r.Time.Before(until)) && (f.Since.IsZero() || !r.Time.Before(until)) &&
					(by == ByCost && r.Cost > 0 || by == ByLatency && r.Latency >= LeastLatency) {
					want++
				}
			}
			seen := make(map[trace.ID]bool)
			last := Place{Value: aboveAll, ID: lastID}
			for place := (*Place)(nil); ; {
				page, next, err := s.Highest(t.Context(), f, by, place, 290, time.Minute)
				if err != nil || !page.Complete || len(page.Records) > 290 {
					t.Fatalf("%s by %s: %d traces, %+v, %v", name, by.column, len(page.Records), next, err)
				}
				for _, r := range page.Records {
					if seen[r.ID] || !last.after(by.value(r), r.ID) {
						t.Fatalf("%s by %s: %s with %v after %+v", name, by.column, r.ID, by.value(r), last)
					}
					seen[r.ID], last = true, Place{Value: by.value(r), ID: r.ID}
				}
				if place = next; place == nil {
					break
				}
			}
			if len(seen) != want {
				t.Errorf("%s by %s: %d traces, want %d", name, by.column, len(seen), want)
			}
		}
	}
	// Without time a list of many goes on after what it looked at.
	page, next, err := s.Highest(t.Context(), trace.Filter{Workspace: "w"}, ByCost, nil, MaxPage, 0)
	if err != nil || len(page.Records) == 0 || next == nil {
		t.Errorf("without time: %d traces, %+v, %v", len(page.Records), next, err)
	}
}
