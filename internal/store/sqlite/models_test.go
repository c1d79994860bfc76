package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

// TestSumModels sums attempts by model, over the hours in which they began.
func TestSumModels(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	records := costCalls()
	for _, r := range records {
		for i := range r.Attempts {
			r.Attempts[i].Latency, r.Attempts[i].FirstToken = 2*time.Second, time.Second
		}
	}
	commitCalls(t, s, records...)
	reader, err := OpenReader(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	source := CostSource{Reader: reader, Workspace: "default"}
	rows, err := SumModels(t.Context(), source, trace.Filter{}, false)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]ModelRow)
	for _, row := range rows {
		found[row.Provider+"/"+row.Model] = row
	}
	mini, claude := found["openai/gpt-4o-mini"], found["openrouter/claude"]
	if mini.Attempts < 3 || mini.Unanswered != 2 || mini.Latency.P95 < 1900 || mini.Latency.P95 > 2100 || mini.FirstToken.P95 < 950 || mini.FirstToken.P95 > 1050 ||
		mini.Latency.Count != mini.Attempts-mini.Unanswered {
		t.Errorf("%+v", mini)
	}
	// It began after midnight, by its call before.
	if len(claude.Over) != 1 || !claude.Over[0].Start.Equal(costDay.Truncate(time.Hour).Add(time.Hour)) || claude.Over[0].Cost != 0.1 || claude.Over[0].P95 < 1900 {
		t.Errorf("%+v", claude)
	}
	if _, none := found["/"]; none || found["groq/new"].Unpriced != 1 {
		t.Errorf("%v", found)
	}
	rows, err = SumModels(t.Context(), source, trace.Filter{Until: costDay.Add(-time.Hour)}, true)
	if err != nil || len(rows) != 0 {
		t.Errorf("%v, %v", rows, err)
	}
	if rows, err = SumModels(t.Context(), source, trace.Filter{}, true); err != nil || fmt.Sprint(rows[0].Over[0].Start) != "2026-11-01 00:00:00 +0000 UTC" {
		t.Errorf("%v, %v", rows, err)
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	if _, err := SumModels(left, source, trace.Filter{}, false); !errors.Is(err, context.Canceled) {
		t.Errorf("after the reader left: %v", err)
	}
}
