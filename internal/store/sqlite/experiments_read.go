package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
)

// Experiments returns what is known of a workspace's experiment, or of all if name is empty,
// by their names. All are those of definitions: a rollout's is found by its name alone. Those whose
// definitions are gone are among them until 30 days after their end. Where the last plan waits
// for being counted anew, there are no sums. It reads sums, and no units.
func (r *Reader) Experiments(ctx context.Context, workspace, name string) (all []experiment.Data, err error) {
	tx, err := beginRead(ctx, r.db)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, endRead(tx)) }()
	if there, err := queryInt(ctx, tx, "SELECT count(*) FROM sqlite_schema WHERE name = 'experiments'"); err != nil || there == 0 {
		return nil, err // no gateway has opened the file since there are experiments
	}
	of := ofBoth
	if name == "" {
		of = ofDefinitions
	}
	found, err := readTracked(ctx, tx, workspace, name, of)
	if err != nil {
		return nil, err
	}
	for _, x := range found {
		d, err := x.data(ctx, tx, time.Now())
		if err != nil {
			return nil, err
		}
		all = append(all, *d)
	}
	return all, nil
}

// data returns what is known of the experiment.
func (x *tracked) data(ctx context.Context, db querier, now time.Time) (*experiment.Data, error) {
	d := &experiment.Data{Plans: x.plans, Thresholds: map[int]time.Duration{}, Unitless: x.unitless}
	if x.gone > 0 {
		d.Gone = time.UnixMilli(x.gone).UTC()
	}
	what, err := json.Marshal(countsOf(x.plan()))
	if err != nil {
		return nil, err
	}
	greatest, err := readGreatest(ctx, db)
	if err != nil {
		return nil, err
	}
	if x.what != string(what) { // what was counted, if anything, is of another plan
		if d.Unitless = 0; now.Before(x.expires()) {
			traces, metrics, err := x.first(ctx, db)
			if err != nil {
				return nil, err
			}
			d.Pending = greatest.Traces - traces + greatest.Metrics - metrics
		}
		return d, nil
	}
	places := make([]int, len(x.plan().Metrics)) // a metric that is not counted yet has none
	for i := range x.plan().Metrics {
		m := &x.plan().Metrics[i]
		if places[i] = x.placeOf(m); places[i] >= 0 && m.Over == 0 && x.numbers[places[i]].over > 0 {
			d.Thresholds[i] = time.Duration(x.numbers[places[i]].over) * time.Microsecond
		}
	}
	if err := x.readStrata(ctx, db); err != nil {
		return nil, err
	}
	byNumber := map[int64]*experiment.Stratum{}
	d.Strata = make([]experiment.Stratum, len(x.strata))
	for i, s := range x.strata {
		d.Strata[i] = experiment.Stratum{Begin: time.UnixMilli(s.begin).UTC(), Shares: s.shares, Arms: map[string]*experiment.Arm{}}
		byNumber[s.number] = &d.Strata[i]
	}
	if err := x.readSums(ctx, db, byNumber, places); err != nil {
		return nil, err
	}
	slices.SortStableFunc(d.Strata, func(a, b experiment.Stratum) int { return a.Begin.Compare(b.Begin) })
	if d.Anew, err = collect(ctx, db, func(scan func(...any) error) (time.Time, error) {
		var since int64
		err := scan(&since)
		return time.UnixMilli(since).UTC(), err
	}, "SELECT since_ms FROM experiment_readouts WHERE experiment = ? ORDER BY since_ms", x.id); err != nil {
		return nil, err
	}
	if d.Verdicts, err = collect(ctx, db, func(scan func(...any) error) (v experiment.Verdict, err error) {
		var at int64
		err = scan(&v.Metric, &v.Arm, &v.State, &at, &v.Units)
		v.Time = time.UnixMilli(at).UTC()
		return v, err
	}, "SELECT metric, arm, state, time_ms, units FROM experiment_verdicts WHERE experiment = ? AND since_ms = ? ORDER BY time_ms, metric, arm", x.id, x.since); err != nil {
		return nil, err
	}
	if d.Days, err = collect(ctx, db, func(scan func(...any) error) (v experiment.Day, err error) {
		var day int64
		err = scan(&day, &v.Metric, &v.Arm, &v.Units, &v.Difference, &v.Low, &v.High)
		v.Day = time.UnixMilli(day * dayMillis).UTC()
		return v, err
	}, "SELECT day, metric, arm, units, difference, low, high FROM experiment_days WHERE experiment = ? AND since_ms = ? ORDER BY day, place", x.id, x.since); err != nil {
		return nil, err
	}
	d.Pending = max(greatest.Traces-x.traces, 0) + max(greatest.Metrics-x.metrics, 0)
	switch {
	case d.Pending == 0:
		d.Through = now.UTC()
	case x.counted > 0:
		d.Through = time.UnixMilli(x.counted).UTC()
	}
	return d, nil
}

// readSums adds the sums of the arms, and of the metrics by the places of their numbers.
func (x *tracked) readSums(ctx context.Context, db querier, strata map[int64]*experiment.Stratum, places []int) error {
	if _, err := collect(ctx, db, func(scan func(...any) error) (_ struct{}, err error) {
		var stratum int64
		var name string
		a := &experiment.Arm{Decided: make([]experiment.Sums, len(places)), Served: make([]experiment.Sums, len(places))}
		if err := scan(&stratum, &name, &a.Units, &a.FellBack, &a.Moved); err != nil {
			return struct{}{}, err
		}
		if s := strata[stratum]; s != nil {
			s.Arms[name] = a
		}
		return struct{}{}, nil
	}, "SELECT stratum, arm, units, fell_back, moved FROM experiment_arms WHERE experiment = ? AND readout = ? AND (units > 0 OR moved > 0)", x.id, x.readout); err != nil {
		return err
	}
	_, err := collect(ctx, db, func(scan func(...any) error) (_ struct{}, err error) {
		var at sumKey
		var s sum
		if err := scan(append([]any{&at.stratum, &at.arm, &at.metric, &at.fellBack}, s.columns()...)...); err != nil {
			return struct{}{}, err
		}
		if strata[at.stratum] == nil || strata[at.stratum].Arms[at.arm] == nil {
			return struct{}{}, nil
		}
		if x.before { // what units did then may be what the arms did
			s.H, s.C, s.CC, s.YC, s.YH = 0, 0, 0, 0, 0
		}
		arm := strata[at.stratum].Arms[at.arm]
		for i, place := range places {
			if place != at.metric {
				continue
			}
			for _, to := range []*experiment.Sums{&arm.Decided[i], &arm.Served[i]} {
				if at.fellBack && to == &arm.Served[i] {
					continue
				}
				to.Merge(&s.Sums)
				to.Reported += s.reported
			}
		}
		return struct{}{}, nil
	}, "SELECT stratum, arm, metric, fell_back, "+sumColumns+" FROM experiment_sums WHERE experiment = ? AND readout = ?", x.id, x.readout)
	return err
}
