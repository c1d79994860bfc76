package gateway

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/rollout"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// rolloutPlan begins the names of what the store counts for rollouts.
const rolloutPlan = "rollout "

// maxShipped is how many units a fleet is given at a time.
const maxShipped = 5000

// newRollouts makes the rollouts of the workspace from its store and sinks.
func (w *Workspace) newRollouts() *rollouts {
	disk := sqlite.NewRollouts(w.Store.Path, w.Name)
	store := rolloutStore{disk: disk, fleet: w.rolloutFleet(), numbers: w.rolloutNumbers}
	store.stored = func(ctx context.Context) ([]rollout.Row, error) {
		return sqlite.StoredRollouts(ctx, w.Store.Path, w.Name)
	}
	store.ship = func(ctx context.Context, name string, since time.Time, put func(string, []rollout.CountedUnit) error) error {
		for {
			found, err := disk.Unshared(ctx, rolloutPlan+name, maxShipped)
			// As long as the store has yet to count from since on, it has nothing to give.
			if err != nil || len(found.Units) == 0 || !found.Since.Equal(since) {
				return err
			}
			if err := put(found.Node, found.Units); err != nil {
				return err
			}
			if err := disk.Share(ctx, found); err != nil {
				return err
			}
		}
	}
	r := newRollouts(store, &w.Memory.rollouts, w.Logger)
	r.alone = w.Bundle != nil && store.fleet == nil
	r.name = "gateway"
	if host, err := os.Hostname(); err == nil {
		r.name += " " + host
	}
	r.changed, r.moved = w.rolloutsChanged, w.rolloutMoved
	return r
}

// rolloutFleet returns the database by which gateways share rollouts: that of the first sink
// that has one, or nil.
func (w *Workspace) rolloutFleet() rollout.Fleet {
	for i := range w.Sinks {
		source, ok := w.Sinks[i].Sink.(interface {
			Rollouts(workspace string) rollout.Fleet
		})
		if !ok {
			continue
		}
		if fleet := source.Rollouts(w.Name); fleet != nil {
			return fleet
		}
	}
	return nil
}

// rolloutsChanged has clients ask for their flags again, and the store count what the rows say.
func (w *Workspace) rolloutsChanged() {
	w.Memory.flags.changed()
	w.recordCounted()
}

// rolloutNumbers returns what the store has counted for a rollout, or nil.
func (w *Workspace) rolloutNumbers(ctx context.Context, name string) (_ *experiment.Data, err error) {
	reader, err := sqlite.OpenReader(ctx, w.Store.Path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	found, err := reader.Experiments(ctx, w.Name, rolloutPlan+name)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}
