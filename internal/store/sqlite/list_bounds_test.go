package sqlite

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestListsAreBoundedInBytes lists and follows traces with large members, their own or
// shared ones, or with long names of models. A page ends early, and the next one goes on
// after it.
func TestListsAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", answerBytes/8)
	metadata, notes := []byte(`{"ballast":"`+large+`"}`), []string{large[:len(large)/2], large[:len(large)/2]}
	for name, record := range map[string]trace.Record{
		"metadata":        {Metadata: metadata},
		"model":           {Model: large},
		"notes":           {Notes: notes},
		"shared metadata": {Decision: trace.ID{1}, Shared: &trace.Shared{Metadata: metadata}},
		"shared notes":    {Decision: trace.ID{1}, Shared: &trace.Shared{Notes: notes}},
	} {
		t.Run(name, func(t *testing.T) { testListsAreBounded(t, record) })
	}
}

func testListsAreBounded(t *testing.T, record trace.Record) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	authority, now := mustAuthority(t), time.Now()
	const count = 20
	var batch recorder.Batch
	for range count {
		r := record
		r.ID, r.Time, r.Workspace, r.Kind, r.Key = authority.New(trace.KindPrompt, now), now, "w", trace.KindPrompt, "k"
		batch.Records = append(batch.Records, &r)
	}
	mustCommit(t, s, batch)
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

// TestFewTracesAreReadAtOnce lists traces of which one source has few in this period,
// though more in another: the list reads that source alone, and takes only its time.
func TestFewTracesAreReadAtOnce(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	now := time.Now()
	commitCalls(t, s, &trace.Record{Key: "rare", Time: now.Add(-30 * 24 * time.Hour)}, &trace.Record{Key: "rare", Time: now})
	f := trace.Filter{Workspace: "default", Key: "rare", Score: &trace.ScoreRange{Most: 20}, ConversationID: "c"}
	found, err := idSources(t.Context(), s.Reader.db, &f)
	if err != nil || len(found) != 3 {
		t.Fatal(len(found), err)
	}
	for _, other := range found[1:] {
		other.reports = &source{table: "metrics", id: "trace_id", index: "there_is_none"}
	}
	sources := listSources{index: sourceOf(&f), order: newestFirst, found: found}
	w, err := sources.furthest(t.Context(), s.Reader.db, lastID, trace.ID{}, minWindow)
	if err != nil || len(w.ids) != 1 || !w.more {
		t.Errorf("%d traces, more: %t, %v", len(w.ids), w.more, err)
	}
}

// TestDenseWindowsAreScanned reads a source that has most traces: the windows after the
// first are scanned without asking for their ids, and then it is asked again.
func TestDenseWindowsAreScanned(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	const count = 20
	fillCalls(t, s, count*minWindow, time.Now())
	f := trace.Filter{Workspace: "default", Kind: trace.KindEndpoint}
	sources := listSources{index: sourceOf(&f), order: oldestFirst, scans: 2}
	if err := sources.find(t.Context(), s.Reader.db, &f); err != nil {
		t.Fatal(err)
	}
	limit := before(lastID)
	var asked []bool
	var cursor trace.ID
	for more := true; more; {
		left := sources.left
		w, err := sources.furthest(t.Context(), s.Reader.db, cursor, limit, minWindow)
		if err != nil {
			t.Fatal(err)
		}
		asked = append(asked, left == 0)
		cursor, more = w.end, w.more
	}
	if len(asked) < count/2 || !asked[0] || asked[1] || asked[2] || !asked[3] {
		t.Errorf("the ids were asked for: %v", asked)
	}
}
