package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/rollout"
)

// RolloutStatus is how a rollout of the served definitions stands.
type RolloutStatus struct {
	Name string `json:"name"`
	// State is empty as long as there is no row.
	State rollout.State `json:"state,omitempty"`
	// Share is how many of the 100,000 buckets get the new answer, since the row of the
	// number Row was made.
	Share int       `json:"share"`
	Row   int64     `json:"row,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Overtaken reports that other gateways serve another edition, which goes on.
	Overtaken bool   `json:"overtaken,omitempty"`
	Says      string `json:"says"` // what it waits for
}

// Rollout is all that is known of a rollout.
type Rollout struct {
	RolloutStatus
	Plan rollout.Plan `json:"plan"`
	// Evidence is what the guards see now, or saw when the rollout was stopped; null: nothing
	// yet.
	Evidence *rollout.Evidence `json:"evidence"`
	Rows     []rollout.Row     `json:"rows"`
}

// aloneSays is why all units are answered as the control where bundles come to gateways that
// share nothing.
const aloneSays = "the definitions are a bundle, which other gateways may serve as well, and no sink shares rows of rollouts: all units are answered as the control. Give the workspace a sink postgres, with the database of the other gateways, or definitions from a directory"

// all returns what is known of each rollout, by name.
func (r *rollouts) all() []Rollout {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []Rollout
	for _, p := range r.snapshot.Rollouts {
		look, rows := r.looks[p.Name()], r.rows.of(p.Name())
		if look.rows != len(rows) { // what was said then may be over
			look.evidence = nil
			_, look.says = p.Next(rows, nil, nil, time.Now())
		}
		one := Rollout{RolloutStatus: RolloutStatus{Name: p.Name(), Says: look.says}, Plan: p, Evidence: look.evidence, Rows: []rollout.Row{}}
		switch {
		case r.alone:
			one.Says = aloneSays
		case r.away != nil:
			one.Says = "no step is taken while its rows are out of reach: " + r.away.Error()
		}
		if !r.alone && len(rows) > 0 {
			one.Rows = rows
			if standing, ok := rollout.Stand(rows, p.Edition); ok {
				row := &standing.Row
				one.State, one.Share, one.Row, one.Since, one.Overtaken = standing.State, row.Share, row.Number, row.Time.UTC(), standing.Overtaken
				one.Evidence = cmp.Or(one.Evidence, row.Evidence)
			}
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b Rollout) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func (r *rollouts) statuses() (list []RolloutStatus) {
	for _, one := range r.all() {
		list = append(list, one.RolloutStatus)
	}
	return list
}

// conditions returns which rollouts a guard has stopped, and since when rows can't be shared.
func (r *rollouts) conditions() (list []Condition) {
	all := r.all()
	for i := range all {
		// A person who holds a rollout knows it.
		if standing, ok := rollout.Stand(all[i].Rows, all[i].Plan.Edition); ok && stopped(&standing.Row) {
			list = append(list, Condition{RolloutStopped, all[i].Name, standing.Row.Time, "at " + ShareText(all[i].Share) + ": " + standing.Row.Why})
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(all) == 0:
	case r.alone:
		list = append(list, Condition{RolloutUnshared, "rollouts", r.since, aloneSays})
	case r.fleet != nil && r.away != nil && time.Since(r.awaySince) > longAway:
		list = append(list, Condition{RolloutUnshared, "rollouts", r.awaySince, r.away.Error()})
	}
	return list
}

// stopped reports whether a gateway made the row because of what guards see.
func stopped(row *rollout.Row) bool {
	return (row.Kind == rollout.Hold || row.Kind == rollout.Back) && row.Evidence != nil
}

// ShareText returns buckets in percent.
func ShareText(buckets int) string { return fmt.Sprintf("%g %%", float64(buckets)*100/rollout.Whole) }

// rolloutMoved tells of a row that is new to the process.
func (w *Workspace) rolloutMoved(row *rollout.Row) {
	fields := []zap.Field{
		zap.String("rollout", row.Rollout), zap.Int64("row", row.Number), zap.String("kind", string(row.Kind)), zap.String("share", ShareText(row.Share)), zap.String("by", row.By),
	}
	if row.Why != "" {
		fields = append(fields, zap.String("why", row.Why))
	}
	name := EventRolloutStep
	if row.Kind == rollout.Hold || row.Kind == rollout.Back {
		name = EventRolloutStopped
	}
	if stopped(row) {
		w.Logger.Error("a guard stopped a rollout", fields...)
	} else {
		w.Logger.Info("a rollout moved", fields...)
	}
	w.emit(name, map[string]any{
		"rollout": row.Rollout, "row": row.Number, "kind": string(row.Kind), "share": float64(row.Share) / rollout.Whole, "by": row.By, "why": row.Why, "time": timestamp(row.Time),
	})
}

// Rollouts returns what is known of the rollouts of the served definitions, by name.
func (w *Workspace) Rollouts() []Rollout { return w.rollouts.all() }

// The errors of AskRollout, beside those of a database that is away.
var (
	ErrNoRollout       = errors.New("no rollout has this name")
	ErrRolloutConflict = errors.New("not possible")
)

// AskRollout does what a person asks of a rollout: Hold, Back, Resume or Finish. The row is
// served when it returns.
func (w *Workspace) AskRollout(ctx context.Context, name string, kind rollout.Kind, by string) (*rollout.Row, error) {
	return w.rollouts.ask(ctx, name, kind, by)
}

// maxAsks is how often other gateways may be first before a person has to ask again.
const maxAsks = 5

func (r *rollouts) ask(ctx context.Context, name string, kind rollout.Kind, by string) (*rollout.Row, error) {
	r.asking.RLock()
	defer r.asking.RUnlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.asks, cancel)()
	if r.closed {
		return nil, errors.New("the configuration is being replaced: ask again")
	}
	for range maxAsks {
		p := planOf(r.plans(), name)
		switch {
		case p == nil:
			return nil, ErrNoRollout
		case r.alone:
			return nil, fmt.Errorf("%w: %s", ErrRolloutConflict, aloneSays)
		}
		if err := r.fetch(ctx); err != nil {
			return nil, err
		}
		row, err := p.Asked(r.rows.of(name), kind, by, time.Now())
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRolloutConflict, err)
		}
		if added, err := r.add(ctx, row); added || err != nil {
			return row, err
		}
	}
	return nil, fmt.Errorf("%w: other gateways move the rollout at this moment, ask again", ErrRolloutConflict)
}
