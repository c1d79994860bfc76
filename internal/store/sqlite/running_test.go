package sqlite

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// checkSelect: a filter selects a record by the same rules, stored or not.
func (d *drawn) checkSelect(t *rapid.T, f *trace.Filter) {
	got, err := d.store.Select(t.Context(), f, d.records...)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range d.records {
		if got[i] != d.matches(f, r) {
			t.Fatalf("%+v selects %+v: %v", f, r, got[i])
		}
	}
}

// TestSelectsByMetadata: as a list does.
func TestSelectsByMetadata(t *testing.T) {
	s := mustOpen(t, Config{Path: t.TempDir() + "/a.db"})
	now, authority := time.Now(), mustAuthority(t)
	for _, metadata := range []string{
		``, `{}`, `[1]`, `x`, `{"a":1}`, `{"a":1.0}`, `{"a":1e0}`, `{"a":"1"}`, `{"a":true}`, `{"a":null}`, `{"a":"\u0031"}`, `{"a":[1]}`, `{"a":{}}`,
		`{"a":9007199254740993}`, `{"a":1e400}`, `{"b":1}`, `{"a":"true"}`,
	} {
		r := &trace.Record{ID: authority.New(trace.KindEndpoint, now), Time: now, Workspace: "default", Kind: trace.KindEndpoint, Key: "k", Metadata: []byte(metadata)}
		mustCommit(t, s, recorder.Batch{Records: []*trace.Record{r}})
		for _, value := range []string{`1`, `1.0`, `"1"`, `true`, `null`, `9007199254740993`, `9007199254740992`, `2`} {
			for _, orText := range []bool{false, true} {
				f := trace.Filter{Workspace: "default", Metadata: []trace.MetadataMatch{{Name: "a", Value: value, OrText: orText}}}
				page, err := s.Traces(t.Context(), f, trace.ID{}, 1000, time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				listed := slices.ContainsFunc(page.Records, func(other *trace.Record) bool { return other.ID == r.ID })
				if got, err := s.Select(t.Context(), &f, r); err != nil || got[0] != listed {
					t.Errorf("%s by %s, or text %v: %v, %v; a list: %v", metadata, value, orText, got, err, listed)
				}
			}
		}
	}
}

// TestAroundIsGet for a record that is not stored.
func TestAroundIsGet(t *testing.T) {
	s := mustOpen(t, Config{Path: t.TempDir() + "/a.db"})
	now := time.Now()
	call := fullRecord(mustAuthority(t).New(trace.KindEndpoint, now), now)
	call.Prompt, call.PromptVersion = "reply", "00aa11bb22cc"
	mustCommit(t, s, recorder.Batch{
		Metrics: []*trace.Metrics{metricsOf(call.ID)},
		Versions: []trace.Version{
			{Workspace: call.Workspace, Kind: call.Kind, Key: call.Key, Version: call.Version, Content: []byte(`{}`), Time: now},
			{Workspace: call.Workspace, Kind: trace.KindPrompt, Key: call.Prompt, Version: call.PromptVersion, Content: []byte(`{}`), Time: now},
		},
	})
	d, err := s.Around(t.Context(), call)
	if err != nil || d.Record != call || len(d.Metrics) != 1 || d.MetricsTotal != 1 || d.Version == nil || d.Prompt == nil || !strings.Contains(string(d.Prompt.Content), "{") {
		t.Errorf("%+v, %v", d, err)
	}
}
