package sqlite

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestTracesByTheirAttempts lists the calls that went beyond their first target, and the
// slow ones.
func TestTracesByTheirAttempts(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	authority, now := mustAuthority(t), time.Now()
	var batch recorder.Batch
	for key, r := range map[string]trace.Record{
		"none":          {},
		"one":           {Attempts: []trace.Attempt{{Provider: "a", Model: "m"}}, Latency: time.Second},
		"again":         {Attempts: []trace.Attempt{{Provider: "a", Model: "m"}, {Provider: "a", Model: "m"}}, Latency: 2 * time.Second},
		"another":       {Attempts: []trace.Attempt{{Provider: "a", Model: "m"}, {Provider: "b", Model: "m"}}},
		"another model": {Attempts: []trace.Attempt{{Provider: "a", Model: "m"}, {Provider: "a"}, {Provider: "a", Model: "m"}}},
		"left out":      {Attempts: []trace.Attempt{{Provider: "b"}}, Notes: []string{"plan: unknown_field", "skipped a: left alone"}},
		"a note":        {Attempts: []trace.Attempt{{Provider: "b"}}, Notes: []string{`plan: "skipped `}},
	} {
		r.ID, r.Time, r.Workspace, r.Kind, r.Key = authority.New(trace.KindEndpoint, now), now, "default", trace.KindEndpoint, key
		batch.Records = append(batch.Records, &r)
	}
	mustCommit(t, s, batch)
	for name, test := range map[string]struct {
		filter trace.Filter
		want   []string
	}{
		"fallback":   {trace.Filter{Fallback: true}, []string{"another", "another model", "left out"}},
		"two":        {trace.Filter{Attempts: 2}, []string{"again", "another", "another model"}},
		"three":      {trace.Filter{Attempts: 3}, []string{"another model"}},
		"slower":     {trace.Filter{Slower: time.Second}, []string{"again", "one"}},
		"a prompt's": {trace.Filter{Attempts: 1, Kind: trace.KindPrompt}, nil},
	} {
		test.filter.Workspace = "default"
		page, err := s.Traces(t.Context(), test.filter, trace.ID{}, 10, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, r := range page.Records {
			keys = append(keys, r.Key)
		}
		if slices.Sort(keys); !slices.Equal(keys, test.want) {
			t.Errorf("%s: %q, want %q", name, keys, test.want)
		}
	}
}
