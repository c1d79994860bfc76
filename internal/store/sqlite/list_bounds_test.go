package sqlite

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestListsAreBoundedInBytes lists and follows traces that show much, be it their
// own or what they share, or whose upstreams named a model at length: a page ends
// early, and the next one goes on behind it.
func TestListsAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", answerBytes/8)
	metadata, notes := []byte(`{"ballast":"`+large+`"}`), []string{large[:len(large)/2], large[:len(large)/2]}
	for name, of := range map[string]trace.Record{
		"metadata":        {Metadata: metadata},
		"model":           {Model: large},
		"notes":           {Notes: notes},
		"shared metadata": {Decision: trace.ID{1}, Shared: &trace.Shared{Metadata: metadata}},
		"shared notes":    {Decision: trace.ID{1}, Shared: &trace.Shared{Notes: notes}},
	} {
		t.Run(name, func(t *testing.T) { testListsAreBounded(t, of) })
	}
}

func testListsAreBounded(t *testing.T, of trace.Record) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	authority, now := mustAuthority(t), time.Now()
	const count = 20
	var batch recorder.Batch
	for range count {
		r := of
		r.ID, r.Time, r.Workspace, r.Kind, r.Key = authority.New(trace.KindPrompt, now), now, "w", trace.KindPrompt, "k"
		batch.Records = append(batch.Records, &r)
	}
	if err := s.Commit(t.Context(), &batch); err != nil {
		t.Fatal(err)
	}
	for name, filter := range map[string]trace.Filter{
		"all": {Workspace: "w"}, "by key": {Workspace: "w", Key: "k"}, "of a kind": {Workspace: "w", Kind: trace.KindPrompt},
	} {
		found, pages := 0, 0
		for before := (trace.ID{}); ; pages++ {
			page, err := s.Traces(t.Context(), filter, before, 1000, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Records) > 8 {
				t.Errorf("%s: a page of %d traces", name, len(page.Records))
			}
			found += len(page.Records)
			if before = page.Next; before.IsZero() {
				break
			}
		}
		if found != count {
			t.Errorf("%s: %d of %d traces on %d pages", name, found, count, pages+1)
		}
	}
	found := 0
	for after := int64(0); ; {
		records, last, err := s.Follow(t.Context(), trace.Filter{Workspace: "w"}, after, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(records) > 8 {
			t.Errorf("%d traces at once", len(records))
		}
		found += len(records)
		if last == after {
			break
		}
		after = last
	}
	if found != count {
		t.Errorf("%d of %d traces were followed", found, count)
	}
}
