package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// served is a revision of a workspace that began to be served so many hours after
// epoch.
func served(workspace, directory, name string, hours int) *recorder.Revision {
	return &recorder.Revision{
		Workspace: workspace, Directory: directory, Revision: name, Time: epoch.Add(time.Duration(hours) * time.Hour),
		Versions: []trace.Version{{Workspace: workspace, Kind: trace.KindPrompt, Key: "p", Version: "v" + name}},
		Context:  []byte("fields: {}\n"), Archive: []byte("files of " + name),
	}
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

// keptSets lists the revisions that are kept, oldest first, with an asterisk where
// their files are.
func keptSets(t *testing.T, s *Store) (rows []string) {
	t.Helper()
	list, err := collect(t.Context(), s.conn, func(scan func(...any) error) (name string, err error) {
		return name, scan(&name)
	}, "SELECT workspace || directory || ' ' || revision || iif(archive IS NULL, '', '*') FROM revisions ORDER BY seq")
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
	if got, err := s.ServedLast(t.Context(), "w", "/a"); err != nil || got.Revision != "1" || !bytes.Equal(got.Archive, again.Archive) || !got.Time.Equal(again.Time) {
		t.Errorf("%+v %v", got, err)
	}
	if first, err := queryInt(t.Context(), s.conn, "SELECT first_seen_ms FROM revisions WHERE workspace = 'w' AND revision = '1'"); err != nil || first != epoch.UnixMilli() {
		t.Error(first, err)
	}
	if diff := cmp.Diff([]string{"w/a 2", "v/a 3*", "w/b 4*", "w/a 1*"}, keptSets(t, s)); diff != "" {
		t.Error(diff)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	// The reader of a start finds it, and what is no store of this version has none.
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
	r, err = OpenReader(t.Context(), old)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.ServedLast(t.Context(), "w", "/a"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

func TestRevisionsAreBounded(t *testing.T) {
	s, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "traces.db"), Retention: 100 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	commitRevisions(t, s, served("other", "/a", "old", 0))
	for n := range maxRevisions + 3 {
		commitRevisions(t, s, served("w", "/a", fmt.Sprint(n), n))
	}
	rows := keptSets(t, s)
	if len(rows) != maxRevisions+1 || rows[0] != "other/a old*" || rows[1] != "w/a 3" || rows[len(rows)-1] != fmt.Sprintf("w/a %d*", maxRevisions+2) {
		t.Errorf("%d %v", len(rows), rows)
	}
	maintain := func(at time.Time) {
		t.Helper()
		for more := true; more; {
			if more, err = s.Maintain(t.Context(), at); err != nil {
				t.Fatal(err)
			}
		}
	}
	maintain(epoch.Add((100 + 50) * time.Hour))
	if rows := keptSets(t, s); len(rows) != maxRevisions+3-50+1 || rows[1] != "w/a 50" {
		t.Errorf("%d %v", len(rows), rows)
	}
	// What is served stays, whatever its age.
	maintain(epoch.Add(10_000 * time.Hour))
	if diff := cmp.Diff([]string{"other/a old*", fmt.Sprintf("w/a %d*", maxRevisions+2)}, keptSets(t, s)); diff != "" {
		t.Error(diff)
	}
}

func TestRevisionsAreListed(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "traces.db")})
	ab := served("w", "/a", "ab1", 0)
	ab.Versions[0].Content = []byte(`{"kind":"prompt"}`)
	if err := s.Commit(t.Context(), &recorder.Batch{Versions: []trace.Version{{Workspace: "w", Kind: trace.KindPrompt, Key: "p", Version: "vab1", Time: epoch, Content: ab.Versions[0].Content}}}); err != nil {
		t.Fatal(err)
	}
	commitRevisions(t, s, ab, served("v", "/a", "ab9", 1), served("w", "/b", "ab1", 2), served("w", "/a", "ab2", 3), served("w", "/a", "ab1", 4), served("w", "/a", "cd", 5), served("w", "/b", "ab1", 6))
	hour := func(n int) time.Time { return epoch.Add(time.Duration(n) * time.Hour) }
	want := []ServedRevision{{"ab1", hour(0), hour(6), true}, {"cd", hour(5), hour(5), false}, {"ab2", hour(3), hour(3), false}}
	for begin, want := range map[string][]ServedRevision{"": want, "ab": {want[0], want[2]}, "cd": want[1:2], "c%": nil, "x": nil} {
		got, err := s.Revisions(t.Context(), "w", begin)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v %s", begin, err, diff)
		}
	}
	got, err := s.Revision(t.Context(), "w", "ab1")
	if diff := cmp.Diff(&StoredRevision{want[0], []byte("fields: {}\n"), []trace.Version{{Workspace: "w", Kind: trace.KindPrompt, Key: "p", Version: "vab1", Time: epoch, Content: []byte(`{"kind":"prompt"}`)}}}, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if _, err := s.Revision(t.Context(), "w", "ab"); !errors.Is(err, ErrNotFound) {
		t.Errorf("the beginning of a revision: %v", err)
	}
	if _, err := s.Revision(t.Context(), "w", "ab2"); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("a revision without its versions: %v", err)
	}
}
