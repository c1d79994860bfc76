package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestTheLastScoreCounts, even if it is the same as an earlier one, for lists and for a
// call that is not stored.
func TestTheLastScoreCounts(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	now := time.Now()
	r := &trace.Record{ID: mustAuthority(t).New(trace.KindPrompt, now), Time: now, Workspace: "default", Kind: trace.KindPrompt, Key: "k"}
	mustCommit(t, s, recorder.Batch{Records: []*trace.Record{r}})
	for _, score := range []float64{90, 10, 90, 10} {
		report := &trace.Metrics{TraceID: r.ID, Workspace: r.Workspace, Time: now, Score: new(score)}
		later := &trace.Metrics{TraceID: r.ID, Workspace: r.Workspace, Time: now, ChainID: new("c")} // without a score
		mustCommit(t, s, recorder.Batch{Metrics: []*trace.Metrics{report, later}})
		for _, scores := range []trace.ScoreRange{{Least: 0, Most: 10}, {Least: 90, Most: 100}, trace.AllScores} {
			want := 0
			if scores.Least <= score && score <= scores.Most {
				want = 1
			}
			f := trace.Filter{Workspace: "default", Score: &scores}
			worst, next, err := s.Worst(t.Context(), f, nil, 10, time.Minute)
			if err != nil || next != nil || len(worst.Records) != want || want > 0 && worst.Scores[r.ID] != score {
				t.Errorf("score %v, the worst in %v: %+v, more %v, %v", score, scores, worst, next, err)
			}
			page, err := s.Traces(t.Context(), f, trace.ID{}, 10, time.Minute)
			if err != nil || len(page.Records) != want {
				t.Errorf("score %v, in %v: %+v, %v", score, scores, page, err)
			}
			if selected, err := s.Select(t.Context(), &f, r); err != nil || selected[0] != (want > 0) {
				t.Errorf("score %v, selected by %v: %v, %v", score, scores, selected, err)
			}
		}
	}
}
