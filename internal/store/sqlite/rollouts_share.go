package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/rollout"
)

// toShare notes the units as some that a fleet has yet to be given.
func (x *tracked) toShare(exec execs, all []*changed) error {
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.name
	}
	list, err := json.Marshal(names)
	if err != nil {
		return err
	}
	_, err = exec("INSERT OR REPLACE INTO experiment_outbox (experiment, unit) SELECT ?, value FROM json_each(?)", x.id, string(list))
	return err
}

// Unshared are units that were counted, or counted further, since the fleet was given them.
type Unshared struct {
	Node  string    // names the store
	Since time.Time // from when on the rollout's evidence counts
	Units []rollout.CountedUnit

	experiment, last int64
}

// Unshared returns units of a workspace's rollout that a fleet has yet to be given, at most
// some, the longest waiting first. There are only such where Shared is set in the plan of that
// name. None are returned while the plan waits for being counted anew.
func (l *Rollouts) Unshared(ctx context.Context, plan string, most int) (found *Unshared, err error) {
	err = l.do(ctx, func(_ string, db *sql.DB) error {
		found = new(Unshared)
		tx, err := beginRead(ctx, db)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, endRead(tx)) }()
		return found.read(ctx, tx, l.workspace, plan, most)
	})
	return found, err
}

func (s *Unshared) read(ctx context.Context, tx *sql.Tx, workspace, plan string, most int) error {
	var id []byte
	if err := tx.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = 'store_id'").Scan(&id); err != nil {
		return err
	}
	s.Node = hex.EncodeToString(id)
	all, err := readTracked(ctx, tx, workspace, plan, ofRollouts)
	if err != nil || len(all) == 0 {
		return err
	}
	x := all[0]
	what, err := json.Marshal(countsOf(x.plan()))
	if err != nil || x.what != string(what) || x.gone > 0 {
		return err
	}
	s.Since, s.experiment = x.plan().Start, x.id
	var places []int
	for i := range x.plan().Metrics {
		place := x.placeOf(&x.plan().Metrics[i])
		if place < 0 {
			return nil // it is to be counted anew
		}
		places = append(places, place)
	}
	arms := map[string]string{}
	s.Units, err = collect(ctx, tx, func(scan func(...any) error) (c rollout.CountedUnit, err error) {
		var u unit
		if err := u.scan(func(to ...any) error { return scan(append(to, &s.last)...) }, &c.Unit, arms); err != nil {
			return c, err
		}
		c.Arm, c.First, c.Moved = u.arm, time.UnixMilli(u.first).UTC(), u.moved
		for _, place := range places {
			c.Numbers = append(c.Numbers, u.numbers[place*perNumber:][:atPastCount]...)
		}
		return c, nil
	}, "SELECT "+unitColumns+`, o.seq FROM experiment_outbox AS o NOT INDEXED CROSS JOIN experiment_units AS u ON u.experiment = o.experiment AND u.unit = o.unit
WHERE o.experiment = ? AND u.readout = ? ORDER BY o.seq LIMIT ?`, x.id, x.readout, most)
	return err
}

// Share notes that the fleet was given units. Those that were counted further meanwhile wait
// again.
func (l *Rollouts) Share(ctx context.Context, s *Unshared) error {
	if len(s.Units) == 0 {
		return nil
	}
	return l.transact(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM experiment_outbox NOT INDEXED WHERE seq <= ? AND experiment = ?", s.last, s.experiment)
		return err
	})
}
