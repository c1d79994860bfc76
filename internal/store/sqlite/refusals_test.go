package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// refusal returns a refusal by a limit of customers, in an hour.
func refusal(subject string, hour time.Time, count int64, messages ...string) *recorder.Refusal {
	r := &recorder.Refusal{
		RefusalID: recorder.RefusalID{Workspace: "default", APIKey: "web", Route: "endpoints", Status: 429, Code: "rate_limited", Limit: "customers", Subject: subject, Key: "chat"},
		Hour:      hour.Truncate(time.Hour), Count: count, Last: hour, Examples: []recorder.RefusalExample{},
	}
	for _, m := range messages {
		r.Examples = append(r.Examples, recorder.RefusalExample{Time: hour, Message: m})
	}
	return r
}

func refusedIn(t *testing.T, path string, f trace.Filter) (rows []string) {
	t.Helper()
	reader, err := OpenReader(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	f.Workspace = "default"
	list, err := reader.Refusals(t.Context(), &RefusalQuery{Filter: f})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		line := fmt.Sprintf("%d %s %s", r.Count, r.Subject, r.Key)
		for _, e := range r.Examples {
			line += " " + e.Message
		}
		rows = append(rows, line)
	}
	return rows
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Hour).Add(time.Minute)
	path := filepath.Join(t.TempDir(), "a.db")
	retention := time.Duration(0)
	config := Config{Path: path, CurrentRetention: func() time.Duration { return retention }}
	s := mustOpen(t, config)
	mustCommit(t, s, recorder.Batch{Refusals: []*recorder.Refusal{
		refusal("acme", now.Add(-48*time.Hour), 5, "old"), refusal("acme", now, 2, "b", "a"), refusal("globex", now, 3, "for globex"),
	}})
	mustCommit(t, s, recorder.Batch{Refusals: []*recorder.Refusal{refusal("acme", now, 2, "d", "c")}})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, config) // a restart
	hold := func(name string, f trace.Filter, want ...string) {
		t.Helper()
		if got := refusedIn(t, path, f); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	hold("all", trace.Filter{}, "9 acme chat d c b", "3 globex chat for globex")
	hold("since yesterday", trace.Filter{Since: now.Add(-24 * time.Hour)}, "4 acme chat d c b", "3 globex chat for globex")
	hold("until yesterday", trace.Filter{Until: now.Add(-24 * time.Hour)}, "5 acme chat old")
	hold("the hour that began before", trace.Filter{Since: now.Add(30 * time.Minute)}, "4 acme chat d c b", "3 globex chat for globex")
	hold("another key", trace.Filter{APIKey: "other"})
	hold("another definition", trace.Filter{Key: "other"})

	reader, err := OpenReader(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	for want, q := range map[string]*RefusalQuery{
		"1 rows, [-48h 5 0h 7]": {}, // of acme's row, the sum
		"1 rows, [0h 3]":        {Limit: "customers", Subject: new("globex")},
		"0 rows, []":            {Limit: "other"},
		"0 rows, [] ":           {Subject: new("")},
		"0 rows, []  ":          {Filter: trace.Filter{Code: "server"}},
	} {
		q.Workspace = "default"
		rows, err := reader.Refusals(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		hours, err := reader.RefusalHours(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, h := range hours {
			list = append(list, fmt.Sprintf("%dh %d", int(h.Start.Sub(now.Truncate(time.Hour)).Hours()), h.Count))
		}
		if got := fmt.Sprintf("%d rows, %v", min(len(rows), 1), list); got != strings.TrimSpace(want) {
			t.Errorf("%+v: %s, want %s", q, got, want)
		}
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}

	retention = 24 * time.Hour
	if _, err := s.Maintain(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	hold("after the retention", trace.Filter{}, "4 acme chat d c b", "3 globex chat for globex")

	// The refusals of an erased subject count as refusals of others.
	mustCommit(t, s, recorder.Batch{Refusals: []*recorder.Refusal{refusal("*", now, 7, "others")}})
	if _, err := Erase(t.Context(), path, trace.Selector{Workspace: "default", MetadataName: "customer", MetadataValue: `"globex"`}); err != nil {
		t.Fatal(err)
	}
	hold("after the erasure", trace.Filter{}, "10 * chat others", "4 acme chat d c b")
	if _, err := Erase(t.Context(), path, trace.Selector{Workspace: "default", ConversationID: "others"}); err != nil {
		t.Fatal(err)
	}
	hold("after that of a conversation", trace.Filter{}, "10 * chat", "4 acme chat d c b")
}

// Callers choose subjects: their number in each hour is bounded.
func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Now()
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	var batch recorder.Batch
	for i := range maxRefusalRows + 500 {
		batch.Refusals = append(batch.Refusals, refusal(fmt.Sprint("subject ", i), now, 1))
	}
	batch.Refusals = append(batch.Refusals, refusal("subject 0", now, 1))
	mustCommit(t, s, batch)
	rows, err := queryInt(context.Background(), s.conn, "SELECT count(*) FROM refusals")
	if err != nil || rows != maxRefusalRows+1 {
		t.Errorf("%d rows, %v", rows, err)
	}
	if got := refusedIn(t, path, trace.Filter{}); got[0] != "500 * chat" || got[1] != "2 subject 0 chat" {
		t.Errorf("%q", got[:2])
	}
}
