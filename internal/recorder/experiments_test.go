package recorder

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
)

func experiments(workspace string, names ...string) *Experiments {
	e := &Experiments{Workspace: workspace}
	for _, name := range names {
		e.Plans = append(e.Plans, experiment.Plan{Name: name})
	}
	return e
}

// TestExperiments checks that the newest list of each workspace is stored, durably, also an
// empty one, and by a store that replaces another.
func TestExperiments(t *testing.T) {
	run(t, Options{MaxRecords: 1}, func(t *testing.T, r *Recorder, s *memStore) {
		r.Join("w")
		r.Join("other")
		r.Experiments(experiments("w", "a"))
		r.Experiments(experiments("other", "a", "b"))
		r.Experiments(experiments("w", "c"))
		if queued := r.Stats().Queued; queued != 2 {
			t.Errorf("%d wait", queued)
		}
		open(t, r)
		settle(time.Second)
		r.Experiments(experiments("w"))
		settle(time.Second)
		if diff := cmp.Diff([]string{"other a b*", "w c*", "w*"}, s.experiments); diff != "" {
			t.Error(diff)
		}
		r.Leave("other")
		fail := replacedOnce()
		s.set(func(s *memStore) {
			s.fail = func(*Batch) error { return fail() }
			s.experiments = nil
		})
		r.Revision(revision("/a", "1"))
		settle(time.Minute)
		if diff := cmp.Diff([]string{"w*"}, s.experiments); diff != "" || s.opened != 2 {
			t.Error(s.opened, diff)
		}
	})
}

// TestExperimentsOfAFailingStore checks that they are tried again, and counted as lost where
// the recorder closes before.
func TestExperimentsOfAFailingStore(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		open(t, r)
		fail := func(err error) {
			s.set(func(s *memStore) { s.fail = func(*Batch) error { return err } })
		}
		fail(errors.New("the disk is full"))
		r.Experiments(experiments("w", "a"))
		settle(time.Minute)
		fail(nil)
		settle(time.Minute)
		if diff := cmp.Diff([]string{"w a*"}, s.experiments); diff != "" {
			t.Error(diff)
		}
		fail(errors.New("the disk is full"))
		r.Experiments(experiments("w", "b"))
		closeRecorder(t, r)
		if lost := r.Stats().Workspaces["w"]; lost.Failed != 1 || len(s.experiments) != 1 {
			t.Errorf("%+v %v", lost, s.experiments)
		}
		r.Experiments(experiments("w", "c"))
		if queued := r.Stats().Queued; queued != 0 {
			t.Errorf("%d wait for a recorder that has closed", queued)
		}
	})
}
