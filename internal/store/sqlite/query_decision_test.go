package sqlite

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestDecisionsBetween finds decisions by their traces and by reports on them.
func TestDecisionsBetween(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	authority, at := mustAuthority(t), time.UnixMilli(1790000000123)
	var batch recorder.Batch
	record := func(d trace.Decision, workspace string, traces int) trace.ID {
		for i := range traces {
			kind := []trace.Kind{trace.KindPrompt, trace.KindRemoteConfig, trace.KindEndpoint}[i%3]
			batch.Records = append(batch.Records, &trace.Record{ID: d.Trace(kind, i), Decision: d.ID(), Time: at, Workspace: workspace, Kind: kind, Key: "k"})
		}
		return d.ID()
	}
	first := record(authority.Decide(at, 3), "default", 3)
	second := record(authority.Decide(at.Add(time.Millisecond), 1), "default", 1)
	other := record(authority.Decide(at.Add(time.Millisecond), 1), "other", 1)
	reported := authority.Decide(at.Add(2*time.Millisecond), 1).ID()
	batch.Metrics = append(batch.Metrics, &trace.Metrics{Decision: reported, Time: at, Workspace: "default", Score: new(1.0)})
	alone := &trace.Record{ID: authority.New(trace.KindPrompt, at), Time: at, Workspace: "default", Kind: trace.KindPrompt, Key: "k"}
	batch.Records = append(batch.Records, alone)
	mustCommit(t, s, batch)
	for name, test := range map[string]struct {
		workspace   string
		first, last trace.ID
		want        []trace.ID
	}{
		"all":                {"default", trace.ID{}, lastID, []trace.ID{first, second, reported}},
		"one":                {"default", first, first, []trace.ID{first}},
		"from the second on": {"default", second, lastID, []trace.ID{second, reported}},
		"a report alone":     {"default", reported, reported, []trace.ID{reported}},
		"another workspace":  {"other", trace.ID{}, lastID, []trace.ID{other}},
		"of another":         {"default", other, other, nil},
		"a trace":            {"default", alone.ID, alone.ID, nil},
	} {
		found, more, err := s.DecisionsBetween(t.Context(), test.workspace, test.first, test.last)
		if err != nil || more || !slices.Equal(found, test.want) {
			t.Errorf("%s: %v, more: %t, %v; want %v", name, found, more, err, test.want)
		}
	}

	// The search is bounded, also if it finds nothing.
	batch = recorder.Batch{}
	for range maxDecisionsTraces {
		batch.Records = append(batch.Records, &trace.Record{ID: authority.New(trace.KindPrompt, at), Time: at, Workspace: "default", Kind: trace.KindPrompt})
	}
	later := record(authority.Decide(at.Add(time.Second), 1), "default", 1)
	mustCommit(t, s, batch)
	if found, more, err := s.DecisionsBetween(t.Context(), "default", trace.FirstID(at), lastID); err != nil || !more {
		t.Errorf("%v, more: %t, %v", found, more, err)
	}
	if found, more, err := s.DecisionsBetween(t.Context(), "default", later, later); err != nil || more || !slices.Equal(found, []trace.ID{later}) {
		t.Errorf("%v, more: %t, %v", found, more, err)
	}
}
