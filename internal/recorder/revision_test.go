package recorder

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/trace"
)

func revision(directory, name string) *Revision {
	return &Revision{Workspace: "w", Directory: directory, Revision: name}
}

// TestRevisions checks that the newest revision of each directory is stored, durably
// and whatever else waits.
func TestRevisions(t *testing.T) {
	run(t, Options{MaxRecords: 1}, func(t *testing.T, r *Recorder, s *memStore) {
		for range 3 {
			r.Versions([]trace.Version{{Workspace: "w"}}) // up to the ceiling
		}
		r.Revision(revision("/a", "1"))
		r.Revision(revision("/b", "2"))
		r.Revision(revision("/a", "3"))
		if queued := r.Stats().Queued; queued != 3 {
			t.Errorf("%d wait, want a version and two revisions", queued)
		}
		open(t, r)
		settle(time.Second)
		if diff := cmp.Diff([]string{"w/b 2*", "w/a 3*"}, s.revisions); diff != "" {
			t.Error(diff)
		}
		r.Revision(revision("/a", "4"))
		settle(time.Second)
		if len(s.revisions) != 3 || s.revisions[2] != "w/a 4*" {
			t.Error(s.revisions)
		}
		// What fails is tried again.
		s.mu.Lock()
		s.fail = func(*Batch) error { return errors.New("the disk is full") }
		s.mu.Unlock()
		r.Revision(revision("/a", "5"))
		settle(time.Minute)
		s.mu.Lock()
		s.fail = nil
		s.mu.Unlock()
		settle(time.Minute)
		if len(s.revisions) != 4 || s.revisions[3] != "w/a 5*" {
			t.Error(s.revisions)
		}
		if drops := r.Stats().Drops; drops.Total() != 2 {
			t.Errorf("%+v", drops)
		}
	})
}

// TestRevisionsOfAReplacedStore checks that a store which replaces another gets the
// served revisions, and none of workspaces that have left.
func TestRevisionsOfAReplacedStore(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		for _, workspace := range []string{"w", "w", "other"} {
			r.Join(workspace)
		}
		open(t, r)
		left := revision("/a", "0")
		left.Workspace = "other"
		for _, served := range []*Revision{left, revision("/a", "1"), revision("/a", "2")} {
			r.Revision(served)
			settle(time.Second)
		}
		r.Leave("other")
		r.Leave("w") // of an earlier configuration
		fail := replacedOnce()
		s.set(func(s *memStore) {
			s.fail = func(*Batch) error { return fail() }
			s.revisions = nil
		})
		r.Revision(revision("/b", "3"))
		settle(time.Minute)
		if diff := cmp.Diff([]string{"w/b 3*", "w/a 2*", "w/b 3*"}, s.revisions); diff != "" || s.opened != 2 {
			t.Error(s.opened, diff)
		}
	})
}

// TestRevisionOfAStoreThatNeverOpens checks that it is counted as lost.
func TestRevisionOfAStoreThatNeverOpens(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		s.openError = errors.New("no such disk")
		r.Revision(revision("/a", "1"))
		closeRecorder(t, r)
		if drops := r.Stats().Workspaces["w"]; drops.Failed != 1 {
			t.Errorf("%+v", drops)
		}
		r.Revision(revision("/a", "2"))
		if queued := r.Stats().Queued; queued != 0 {
			t.Errorf("%d wait for a recorder that has closed", queued)
		}
	})
}
