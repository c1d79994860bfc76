package sqlite

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// served returns a revision of a workspace that began to be served some hours after epoch.
func served(workspace, directory, name string, hours int) *recorder.Revision {
	return &recorder.Revision{
		Workspace: workspace, Directory: directory, Revision: name, Time: epoch.Add(time.Duration(hours) * time.Hour),
		Files: []trace.File{fileOf("context.yaml", "fields: {}\n"), fileOf("prompts/p.yaml", "# of "+name)},
	}
}

// fileOf returns a file whose hash is recognizable.
func fileOf(path, content string) trace.File {
	return trace.File{Path: path, Hash: fmt.Sprintf("%x", sha256.Sum256([]byte(content))), Content: content}
}

var epoch = time.UnixMilli(1_790_000_000_000)

func commitRevisions(t *testing.T, s *Store, all ...*recorder.Revision) {
	t.Helper()
	for _, r := range all {
		if err := s.Commit(context.Background(), &recorder.Batch{Revisions: []*recorder.Revision{r}}); err != nil {
			t.Fatal(err)
		}
	}
}

// keptSets lists the stored revisions, oldest first.
func keptSets(t *testing.T, s *Store) (rows []string) {
	t.Helper()
	list, err := collect(t.Context(), s.conn, func(scan func(...any) error) (name string, err error) {
		return name, scan(&name)
	}, "SELECT workspace || directory || ' ' || revision FROM revisions ORDER BY seq")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestServedLast(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traces.db")
	s, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	first := served("w", "/a", "1", 0)
	commitRevisions(t, s, first, served("w", "/a", "2", 1), served("v", "/a", "3", 2), served("w", "/b", "4", 3))
	for _, want := range []*recorder.Revision{served("w", "/a", "2", 1), served("v", "/a", "3", 2), served("w", "/b", "4", 3)} {
		got, err := s.ServedLast(t.Context(), want.Workspace, want.Directory)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Error(err, diff)
		}
	}
	if _, err := s.ServedLast(t.Context(), "v", "/b"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	// Served again, it is the last one again.
	again := served("w", "/a", "1", 9)
	commitRevisions(t, s, again)
	if got, err := s.ServedLast(t.Context(), "w", "/a"); err != nil || got.Revision != "1" || !cmp.Equal(got.Files, again.Files) || !got.Time.Equal(again.Time) {
		t.Errorf("%+v %v", got, err)
	}
	if first, err := queryInt(t.Context(), s.conn, "SELECT first_seen_ms FROM revisions WHERE workspace = 'w' AND revision = '1'"); err != nil || first != epoch.UnixMilli() {
		t.Error(first, err)
	}
	if diff := cmp.Diff([]string{"w/a 2", "v/a 3", "w/b 4", "w/a 1"}, keptSets(t, s)); diff != "" {
		t.Error(diff)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	// A reader at the start finds it, and a file that is no store of this version has none.
	r, err := OpenReader(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := r.ServedLast(t.Context(), "w", "/b"); err != nil || got.Revision != "4" {
		t.Errorf("%+v %v", got, err)
	}
	old := filepath.Join(t.TempDir(), "old.db")
	makeFile(t, old, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = 9; CREATE TABLE versions (seq)", applicationID))
	if _, err = OpenReader(t.Context(), old); err == nil || !strings.Contains(err.Error(), "format 9") {
		t.Errorf("%v, want one that names the format", err)
	}
}

func TestRevisionsAreBounded(t *testing.T) {
	s, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "traces.db"), CurrentRetention: always(100 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	commitRevisions(t, s, served("other", "/a", "old", 0))
	for n := range maxRevisions + 3 {
		commitRevisions(t, s, served("w", "/a", fmt.Sprint(n), n))
	}
	rows := keptSets(t, s)
	if len(rows) != maxRevisions+1 || rows[0] != "other/a old" || rows[1] != "w/a 3" || rows[len(rows)-1] != fmt.Sprintf("w/a %d", maxRevisions+2) {
		t.Errorf("%d %v", len(rows), rows)
	}
	maintain := func(at time.Time) { maintainAt(t, s, at) }
	maintain(epoch.Add((100 + 50) * time.Hour))
	if rows := keptSets(t, s); len(rows) != maxRevisions+3-50+1 || rows[1] != "w/a 50" {
		t.Errorf("%d %v", len(rows), rows)
	}
	// The served set stays, whatever its age.
	maintain(epoch.Add(10_000 * time.Hour))
	if diff := cmp.Diff([]string{"other/a old", fmt.Sprintf("w/a %d", maxRevisions+2)}, keptSets(t, s)); diff != "" {
		t.Error(diff)
	}
	if files := keptFiles(t, s); files != 3 {
		t.Errorf("%d files are kept of two sets with the same data model", files)
	}
}

// maintainAt does all of a maintenance.
func maintainAt(t *testing.T, s *Store, at time.Time) {
	t.Helper()
	for more := true; more; {
		var err error
		if more, err = s.Maintain(t.Context(), at); err != nil {
			t.Fatal(err)
		}
	}
}

func keptFiles(t *testing.T, s *Store) int64 {
	t.Helper()
	n, err := queryInt(t.Context(), s.conn, "SELECT count(*) FROM files")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestFilesAreStoredOnce commits sets that share nearly all of their files.
func TestFilesAreStoredOnce(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "traces.db")})
	const files = 1000
	first := &recorder.Revision{Workspace: "w", Directory: "/a", Revision: "1", Time: epoch}
	for i := range files {
		first.Files = append(first.Files, fileOf(fmt.Sprintf("prompts/é \"%d\".yaml", i), fmt.Sprintf("# %d \x00\u2028\r\n", i)))
	}
	second := *first
	second.Revision, second.Files = "2", slices.Clone(first.Files)
	second.Files[7] = fileOf(second.Files[7].Path, "# edited")
	other := second
	other.Workspace = "v"
	commitRevisions(t, s, first, &second, &other)
	if n := keptFiles(t, s); n != files+1 {
		t.Errorf("%d files are stored, want %d", n, files+1)
	}
	for _, want := range []*recorder.Revision{first, &second, &other} {
		got, err := s.Revision(t.Context(), want.Workspace, want.Revision)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.Files, got.Files); diff != "" {
			t.Error(diff)
		}
	}
	// Only comments differ: the revision is the same, and has the files that were
	// served last.
	commented := second
	commented.Files = append(slices.Clone(second.Files[:999]), fileOf("prompts/last.yaml", "# moved"))
	commitRevisions(t, s, &commented)
	maintainAt(t, s, epoch)
	got, err := s.Revision(t.Context(), "w", "2")
	if err != nil || !cmp.Equal(got.Files, commented.Files) {
		t.Errorf("%v", err)
	}
	if n := keptFiles(t, s); n != files+2 {
		t.Errorf("%d files are stored, want %d", n, files+2)
	}
	// Files that no set has any more are deleted.
	commitRevisions(t, s, &recorder.Revision{Workspace: "w", Directory: "/a", Revision: "2", Time: epoch})
	commitRevisions(t, s, &recorder.Revision{Workspace: "v", Directory: "/a", Revision: "2", Time: epoch})
	maintainAt(t, s, epoch)
	if n := keptFiles(t, s); n != files {
		t.Errorf("%d files are stored, want %d", n, files)
	}
	if got, err := s.Revision(t.Context(), "v", "2"); err != nil || len(got.Files) != 0 {
		t.Errorf("a set without files: %+v %v", got, err)
	}
	// The error for a file that someone deleted has its name.
	if _, err := s.conn.ExecContext(t.Context(), "DELETE FROM files WHERE hash = ?", first.Files[3].Hash); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Revision(t.Context(), "w", "1"); err == nil || !strings.Contains(err.Error(), "the store does not have the file "+first.Files[3].Path) {
		t.Error(err)
	}
}

// TestRevisionsAreBoundedInBytes commits sets that are large together.
func TestRevisionsAreBoundedInBytes(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "traces.db")})
	const size = maxRevisionBytes / 4
	large := func(workspace, name string, files int) *recorder.Revision {
		r := served(workspace, "/a", name, 0)
		for i := range files {
			r.Files = append(r.Files, fileOf(fmt.Sprint(i), strings.Repeat(name+" ", size)[:size]+fmt.Sprint(i)))
		}
		return r
	}
	// Four of them, with their lists, exceed the bound: the commit deletes some.
	commitRevisions(t, s, served("v", "/a", "old", 0))
	for n := range 6 {
		commitRevisions(t, s, large("w", fmt.Sprint(n), 1))
	}
	if diff := cmp.Diff([]string{"v/a old", "w/a 3", "w/a 4", "w/a 5"}, keptSets(t, s)); diff != "" || keptFiles(t, s) != 8 {
		t.Error(keptFiles(t, s), diff)
	}
	// A set that is too large alone is kept as long as it is served.
	commitRevisions(t, s, large("w", "6", 5))
	if diff := cmp.Diff([]string{"v/a old", "w/a 6"}, keptSets(t, s)); diff != "" {
		t.Error(diff)
	}
	if got, err := s.ServedLast(t.Context(), "w", "/a"); err != nil || len(got.Files) != 7 || len(got.Files[2].Content) != size+1 {
		t.Error(err)
	}
	commitRevisions(t, s, served("w", "/a", "7", 0))
	maintainAt(t, s, epoch)
	if diff := cmp.Diff([]string{"v/a old", "w/a 7"}, keptSets(t, s)); diff != "" || keptFiles(t, s) != 3 {
		t.Error(keptFiles(t, s), diff)
	}
}

func TestRevisionsAreListed(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "traces.db")})
	commitRevisions(t, s, served("w", "/a", "ab1", 0), served("v", "/a", "ab9", 1), served("w", "/b", "ab1", 2), served("w", "/a", "ab2", 3), served("w", "/a", "ab1", 4), served("w", "/a", "cd", 5), served("w", "/b", "ab1", 6))
	hour := func(n int) time.Time { return epoch.Add(time.Duration(n) * time.Hour) }
	want := []ServedRevision{{"ab1", hour(0), hour(6), true}, {"cd", hour(5), hour(5), false}, {"ab2", hour(3), hour(3), false}}
	for begin, want := range map[string][]ServedRevision{"": want, "ab": {want[0], want[2]}, "cd": want[1:2], "c%": nil, "x": nil} {
		got, err := s.Revisions(t.Context(), "w", begin)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v %s", begin, err, diff)
		}
	}
	got, err := s.Revision(t.Context(), "w", "ab1")
	if diff := cmp.Diff(&StoredRevision{want[0], served("w", "/b", "ab1", 6).Files}, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if _, err := s.Revision(t.Context(), "w", "ab"); !errors.Is(err, ErrNotFound) {
		t.Errorf("the beginning of a revision: %v", err)
	}
}
