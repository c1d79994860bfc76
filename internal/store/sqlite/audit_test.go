package sqlite

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// auditedIn returns the subjects of the entries that pass a filter.
func auditedIn(t *testing.T, path string, f AuditFilter, limit int) (subjects []string) {
	t.Helper()
	r, err := OpenReader(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f.Workspace = "default"
	entries, err := r.Audit(t.Context(), &f, limit)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		subjects = append(subjects, e.Subject)
	}
	return subjects
}

func TestAudit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	now := time.Now().Truncate(time.Millisecond).UTC()
	whole := AuditEntry{Seq: 1, Time: now.Add(-auditLifetime - time.Minute), Workspace: "default", By: "ops", Role: "admin", From: "192.0.2.1", Action: "edit", Subject: "a", Before: "1", After: "2"}
	for _, e := range []AuditEntry{
		whole,
		{Time: now.Add(-time.Hour), Workspace: "default", By: "sso:ada", Action: "look", Subject: "b"},
		{Time: now, Workspace: "default", By: "ops", Action: "look", Subject: "c"},
		{Time: now, Workspace: "other", By: "ops", Action: "look", Subject: "theirs"},
		{Time: now, Workspace: "default", Action: AuditRefused, Subject: "d" + strings.Repeat("é", maxAuditText)},
	} {
		if err := KeepAudit(t.Context(), path, &e); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := s.Audit(t.Context(), &AuditFilter{Workspace: "default", Action: "edit"}, 9); err != nil || len(all) != 1 || all[0] != whole {
		t.Errorf("%+v, %v; want %+v", all, err, whole)
	}
	for _, test := range []struct {
		filter AuditFilter
		limit  int
		want   string
	}{
		{AuditFilter{}, 9, "d c b a"},
		{AuditFilter{}, 2, "d c"},
		{AuditFilter{Before: 3}, 9, "b a"},
		{AuditFilter{By: "ops"}, 9, "c a"},
		{AuditFilter{Action: "look"}, 9, "c b"},
		{AuditFilter{Since: now.Add(-time.Hour)}, 9, "d c b"},
		{AuditFilter{Until: now}, 9, "b a"},
	} {
		got := auditedIn(t, path, test.filter, test.limit)
		for i, subject := range got {
			if len(subject) > maxAuditText+2 {
				t.Errorf("a subject of %d bytes", len(subject))
			}
			got[i] = subject[:1]
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%+v: %v, want %s", test.filter, got, test.want)
		}
	}
	if _, err := s.Maintain(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if got := auditedIn(t, path, AuditFilter{}, 9); len(got) != 3 || got[2] != "b" {
		t.Errorf("after its lifetime: %d entries", len(got))
	}
	if err := KeepAudit(t.Context(), filepath.Join(t.TempDir(), "none.db"), &whole); err == nil {
		t.Error("an entry was kept in no file")
	}
}

// Anybody can have sign-ins refused: they displace each other, and nothing else.
func TestRefusedSignInsAreBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	now := time.Now()
	if _, err := s.conn.ExecContext(t.Context(), `
WITH RECURSIVE numbers(value) AS (VALUES (1) UNION ALL SELECT value + 1 FROM numbers WHERE value < ?3)
INSERT INTO audit (time_ms, workspace, visitor, role, address, action, subject, before, after)
SELECT ?1, 'default', '', '', '', iif(value = 1, 'edit', ?2), value, '', '' FROM numbers`, now.UnixMilli(), AuditRefused, maxAuditRefused+5); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Maintain(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if n, err := queryInt(t.Context(), s.conn, "SELECT count(*) FROM audit"); err != nil || n != maxAuditRefused+1 {
		t.Errorf("%d entries, %v", n, err)
	}
	if got := auditedIn(t, path, AuditFilter{Action: "edit"}, 9); !slices.Equal(got, []string{"1"}) {
		t.Errorf("the edit: %v", got)
	}
	// The newest stay, however many there are.
	if _, err := s.conn.ExecContext(t.Context(), "UPDATE audit SET seq = seq + ? WHERE seq > ?", maxAudit, maxAuditRefused); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Maintain(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if got := auditedIn(t, path, AuditFilter{}, 9); !slices.Equal(got, []string{"10005", "10004", "10003", "10002", "10001"}) {
		t.Errorf("%v", got)
	}
}

func TestKeyUses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	now := time.Now().Truncate(time.Minute).UTC()
	for _, uses := range []map[string]time.Time{{"app": now, "ops": now.Add(-auditLifetime - time.Hour)}, {"app": now.Add(-time.Minute)}} {
		if err := KeepKeyUses(t.Context(), path, "default", uses); err != nil {
			t.Fatal(err)
		}
	}
	if uses, err := s.KeyUses(t.Context(), "default"); err != nil || len(uses) != 2 || !uses["app"].Equal(now) {
		t.Errorf("%v, %v", uses, err)
	}
	if _, err := s.Maintain(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if uses, err := s.KeyUses(t.Context(), "default"); err != nil || fmt.Sprint(uses) != fmt.Sprint(map[string]time.Time{"app": now}) {
		t.Errorf("%v, %v", uses, err)
	}
}

// A file of an earlier build gets the tables and indexes of console.sql, and keeps its
// traces.
func TestFileOfAnEarlierBuild(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	whole := objectsOf(t, s)
	record := fullRecord(mustAuthority(t).New(trace.KindEndpoint, time.Now()), time.Now())
	if err := s.Commit(t.Context(), &recorder.Batch{Records: []*trace.Record{record}}); err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile(`CREATE (TABLE|INDEX) IF NOT EXISTS (\w+)`).FindAllStringSubmatch(consoleSchema, -1) {
		if _, err := s.conn.ExecContext(t.Context(), "DROP "+match[1]+" IF EXISTS "+match[2]); err != nil {
			t.Fatal(err)
		}
	}
	if lacks := len(whole) - len(objectsOf(t, s)); lacks < 8 {
		t.Fatalf("the earlier file lacks %d objects alone", lacks)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, Config{Path: path})
	if got := objectsOf(t, s); !slices.Equal(got, whole) {
		t.Errorf("the file has %v, want %v", got, whole)
	}
	page, _, err := s.Highest(t.Context(), trace.Filter{Workspace: record.Workspace}, ByCost, nil, 5, time.Minute)
	if err != nil || len(page.Records) != 1 || page.Records[0].ID != record.ID {
		t.Errorf("the dearest are %d: %v", len(page.Records), err)
	}
	if err := KeepAudit(t.Context(), path, &AuditEntry{Time: time.Now(), Workspace: "default", Action: "look", Subject: "a"}); err != nil {
		t.Fatal(err)
	}
	if got := auditedIn(t, path, AuditFilter{}, 9); !slices.Equal(got, []string{"a"}) {
		t.Errorf("%v", got)
	}
}

// objectsOf returns the names of a store's tables and indexes.
func objectsOf(t *testing.T, s *Store) []string {
	t.Helper()
	names, err := collect(t.Context(), s.conn, func(scan func(...any) error) (name string, err error) {
		err = scan(&name)
		return name, err
	}, "SELECT name FROM sqlite_schema WHERE name NOT LIKE 'terms%' ORDER BY name")
	if err != nil {
		t.Fatal(err)
	}
	return names
}
