package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestMinutes counts the traces of two workspaces by the minute, before and after the
// background task has counted them, and forgets minutes that are no longer kept.
func TestMinutes(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	authority, now := mustAuthority(t), time.Now().Truncate(time.Minute)
	var batch recorder.Batch
	add := func(at time.Time, r trace.Record) {
		r.ID, r.Time, r.Key, r.State = authority.New(r.Kind, at), at, "k", trace.StateEnded
		batch.Records = append(batch.Records, &r)
	}
	call := trace.Record{Workspace: "w", Kind: trace.KindEndpoint, Latency: 2 * time.Second, FirstToken: time.Second, Cost: 0.5}
	failed := call
	failed.Code = "upstream_error"
	add(now, call)
	add(now, trace.Record{Workspace: "w", Kind: trace.KindPrompt, Latency: time.Millisecond})
	add(now, trace.Record{Workspace: "other", Kind: trace.KindPrompt, Latency: time.Millisecond})
	add(now.Add(-time.Minute), failed)
	add(now.Add(-7*24*time.Hour), call)
	add(now.Add(-minutesKept-time.Hour), call)
	mustCommit(t, s, batch)
	check := func(when string) {
		t.Helper()
		stats, err := s.Stats(t.Context(), StatsQuery{Workspace: "w", Interval: Minutely, Since: now.Add(-9 * 24 * time.Hour), Until: now.Add(time.Second)})
		if err != nil || len(stats.Rows) != 3 {
			t.Fatalf("%s: %+v, %v", when, stats, err)
		}
		for i, want := range []StatsRow{
			{Start: now.Add(-7 * 24 * time.Hour), Traces: 1, Cost: 0.5}, {Start: now.Add(-time.Minute), Traces: 1, Errors: 1, Cost: 0.5}, {Start: now, Traces: 2, Cost: 0.5},
		} {
			got := stats.Rows[i]
			if !got.Start.Equal(want.Start) || got.Traces != want.Traces || got.Errors != want.Errors || got.Cost != want.Cost || got.Latency.Count != 1 || got.FirstToken.Count != 1 {
				t.Errorf("%s: %+v, want %+v", when, got, want)
			}
		}
		hours, err := s.Stats(t.Context(), StatsQuery{Workspace: "w", Interval: Overall})
		if err != nil || len(hours.Rows) != 2 {
			t.Errorf("%s: the hours are %+v, %v", when, hours, err)
		}
	}
	check("before")
	keeper, err := openStatsKeeper(t.Context(), s.path)
	defer keeper.close()
	for more := err == nil; more; {
		more, err = keeper.step(t.Context(), time.Now())
	}
	if err != nil {
		t.Fatal(err)
	}
	check("after")
	if err := keeper.expireMinutes(t.Context(), now.Add(time.Hour+minutesKept-7*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	stats, err := s.Stats(t.Context(), StatsQuery{Workspace: "w", Interval: Minutely, Since: now.Add(-9 * 24 * time.Hour), Until: now.Add(time.Second)})
	if err != nil || len(stats.Rows) != 2 {
		t.Errorf("a week later: %+v, %v", stats, err)
	}
}
