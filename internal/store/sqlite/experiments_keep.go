package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/rollout"
	"github.com/cadenza-gateway/cadenza/trace"
)

// prepare does what comes before an experiment is counted, and reports whether that may be
// counted now. It does a little, and reports whether there is more.
func (k *experimentKeeper) prepare(ctx context.Context, x *tracked, now time.Time) (ready, more bool, err error) {
	p := x.plan()
	switch began := p.Start.Add(-experiment.Past); {
	case !now.Before(x.expires()), p.Rollout && x.gone > 0:
		more, err := k.forget(ctx, x, true)
		return false, more, err
	case x.gone > 0 || now.Before(began):
		return false, false, nil
	}
	what, err := json.Marshal(countsOf(p))
	if err != nil {
		return false, false, err
	}
	end, err := x.ends(ctx, k.db)
	if err != nil {
		return false, false, err
	}
	switch {
	case x.what == "":
		return false, true, k.setUp(ctx, x, string(what), end, now)
	case x.what != string(what) || slices.ContainsFunc(p.Metrics, func(m experiment.Metric) bool { return x.placeOf(&m) < 0 }),
		end > x.end && x.end <= x.counted: // rows that it passed count
		_, err := k.forget(ctx, x, false)
		return false, true, err
	case end != x.end:
		return false, true, k.transact(ctx, func(tx *sql.Tx) error { return x.own(inTx(ctx, tx), ", end_ms = ?", end) })
	}
	if !now.Before(p.Start) && x.has(func(n metric) bool { return n.over < 0 }) {
		return false, true, k.findThresholds(ctx, x)
	}
	return true, false, nil
}

// ends returns when units are counted no more. Those of a rollout are compared until all get
// the new answer, or none: the row that moves a unit is no other arm.
func (x *tracked) ends(ctx context.Context, db queryer) (int64, error) {
	p := x.plan()
	if !p.Rollout {
		return p.End.UnixMilli(), nil
	}
	return queryInt(ctx, db, `
SELECT min(?1, coalesce((SELECT min(time_ms) FROM rollout_rows WHERE workspace = ?2 AND rollout = ?3 AND time_ms > ?4 AND share IN (0, ?5)), ?1))`,
		p.End.UnixMilli(), x.workspace, p.On+"/"+p.Rule, x.start, rollout.Whole)
}

// setUp begins to count what a plan says, from the first row on that may matter. Where some of
// the rows that were counted before are deleted, the readout begins with those that are left.
// Whether the split answered before its start is not known then, so that no unit has a past.
func (k *experimentKeeper) setUp(ctx context.Context, x *tracked, what string, end int64, now time.Time) error {
	p := x.plan()
	var numbers []metric
	for i := range p.Metrics {
		n := metricOf(&p.Metrics[i])
		if slices.ContainsFunc(numbers, n.is) {
			continue
		}
		n.over = n.Over.Microseconds()
		if n.timed() && n.Over == 0 {
			n.over = -1
		}
		numbers = append(numbers, n)
	}
	x.numbers = numbers
	traces, metrics, err := x.first(ctx, k.db)
	if err != nil {
		return err
	}
	begin := p.Start.UnixMilli()
	if x.readout > 0 {
		// Nothing is deleted yet if the first trace of all is there.
		oldest, err := queryInt(ctx, k.db, `
SELECT CASE WHEN EXISTS (SELECT 1 FROM traces WHERE seq = 1) THEN 0
	ELSE coalesce((SELECT time_ms FROM traces WHERE workspace = ? ORDER BY id LIMIT 1), ?) END`, x.workspace, now.UnixMilli())
		if err != nil {
			return err
		}
		begin = max(begin, oldest)
	}
	lost := begin > p.Start.UnixMilli()
	return k.transact(ctx, func(tx *sql.Tx) error {
		if err := x.own(inTx(ctx, tx), `, what = ?, end_ms = ?, since_ms = ?, readout = readout + 1, answers = '', traces = ?, metrics = ?, from_metrics = ?,
			to_traces = 0, to_metrics = 0, counted_ms = 0, unitless = 0, answered_before = answered_before OR ?`, what, end, begin, traces, metrics, metrics, lost); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO experiment_readouts (experiment, since_ms, answers) VALUES (?, ?, '')", x.id, begin); err != nil {
			return err
		}
		for i, n := range numbers {
			text, err := json.Marshal(&n)
			if err != nil {
				return err
			}
			var over any
			if n.over >= 0 {
				over = n.over
			}
			if _, err := tx.ExecContext(ctx, "INSERT INTO experiment_metrics (experiment, metric, what, over_us) VALUES (?, ?, ?, ?)", x.id, i, string(text), over); err != nil {
				return err
			}
		}
		return nil
	})
}

// first returns the cursors before the first rows that may matter.
func (x *tracked) first(ctx context.Context, db queryer) (traces, metrics int64, err error) {
	// The id of a trace begins with its time, as does that of a report with when it came. The
	// indexes have those of a late begin together, for which SQLite would pass all rows.
	first := trace.FirstID(x.begins())
	err = db.QueryRowContext(ctx, `
SELECT coalesce((SELECT min(seq) - 1 FROM traces INDEXED BY sqlite_autoindex_traces_1 WHERE id >= ?1), (SELECT max(seq) FROM traces), 0),
	coalesce((SELECT min(seq) - 1 FROM metrics INDEXED BY metrics_trace_id WHERE trace_id >= ?1), (SELECT max(seq) FROM metrics), 0)`, first[:]).Scan(&traces, &metrics)
	return traces, metrics, err
}

// forget deletes the units of an experiment, a few at a time, and then what was counted. Of
// one that has expired it deletes what was said too, and all if it is gone. It reports whether
// there is more.
func (k *experimentKeeper) forget(ctx context.Context, x *tracked, expired bool) (more bool, err error) {
	exist, err := queryInt(ctx, k.db, "SELECT EXISTS (SELECT 1 FROM experiment_units WHERE experiment = ?)", x.id)
	if err != nil || exist == 0 && x.what == "" && x.gone == 0 {
		return false, err // without a lock
	}
	return true, k.transact(ctx, func(tx *sql.Tx) error {
		if exist > 0 {
			if err := x.own(inTx(ctx, tx), ""); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, `
DELETE FROM experiment_outbox WHERE experiment = ?1;
DELETE FROM experiment_units WHERE experiment = ?1 AND unit IN (SELECT unit FROM experiment_units WHERE experiment = ?1 ORDER BY unit LIMIT ?2)`, x.id, k.stepUnits)
			return err
		}
		// The traces by which a split is known to have answered before may be deleted.
		var counted counts
		_ = json.Unmarshal([]byte(x.what), &counted)
		p := x.plan()
		same := !expired && counted.On == p.On && counted.Rule == p.Rule && counted.Start == p.Start.UnixMilli()
		if err := x.own(inTx(ctx, tx), ", what = '', traces = 0, metrics = 0, to_traces = 0, to_metrics = 0, answered_before = answered_before AND ?", same); err != nil {
			return err
		}
		tables := []string{"experiment_strata", "experiment_arms", "experiment_sums", "experiment_readouts", "experiment_metrics"}
		if expired {
			tables = append(tables, "experiment_verdicts", "experiment_days")
		}
		if expired && x.gone > 0 {
			tables = append(tables, "experiment_plans")
			if _, err := tx.ExecContext(ctx, "DELETE FROM experiments WHERE id = ?", x.id); err != nil {
				return err
			}
		}
		for _, table := range tables {
			if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE experiment = ?", x.id); err != nil {
				return err
			}
		}
		return nil
	})
}

// thresholdWeek is how long before the start of an experiment the control's answers are read,
// and thresholdAnswers how many of them at most: of more every second one, or fourth, and so
// on.
const (
	thresholdWeek    = 7 * 24 * time.Hour
	thresholdAnswers = 1 << 20
)

// sample are some of many durations.
type sample struct {
	all         []int64
	every, seen int64
}

func (s *sample) add(x int64) {
	if s.seen++; s.every > 1 && s.seen%s.every != 0 {
		return
	}
	if s.all = append(s.all, x); len(s.all) == thresholdAnswers {
		for i := range s.all[:thresholdAnswers/2] {
			s.all[i] = s.all[2*i+1]
		}
		s.all, s.every = s.all[:thresholdAnswers/2], max(2*s.every, 2)
	}
}

// high returns the 95th percentile, 0 if there is none.
func (s *sample) high() int64 {
	if len(s.all) == 0 {
		return 0
	}
	slices.Sort(s.all)
	return s.all[(95*len(s.all)+99)/100-1]
}

// findThresholds finds the thresholds that the plan does not say, once.
func (k *experimentKeeper) findThresholds(ctx context.Context, x *tracked) error {
	p := x.plan()
	week := p.Start.Add(-thresholdWeek)
	at, last := trace.FirstID(week), trace.FirstID(p.Start)
	k.events.of = map[splitOf][]*tracked{}
	var latency, first sample
	for {
		read, err := collect(ctx, k.db, func(scan func(...any) error) (id trace.ID, err error) {
			var splits string
			var took [2]sql.NullInt64
			if err := scan(into{&id}, &splits, &took[0], &took[1]); err != nil {
				return id, err
			}
			if arm, ok := k.events.armOf(x, splits); ok && arm == p.Control {
				for i, s := range []*sample{&latency, &first} {
					if took[i].Int64 > 0 {
						s.add(took[i].Int64)
					}
				}
			}
			return id, nil
		}, "SELECT t.id, t.splits, t.latency_us, t.first_token_us FROM traces AS t INDEXED BY sqlite_autoindex_traces_1 WHERE t.id > ? AND t.id < ? AND t.workspace = ? AND t.kind = 'endpoint' AND "+
			ofExperiments+" ORDER BY t.id LIMIT ?", at[:], last[:], x.workspace, scannedRows)
		if err != nil {
			return err
		}
		if len(read) < scannedRows {
			break
		}
		at = read[len(read)-1]
	}
	return k.transact(ctx, func(tx *sql.Tx) error {
		if err := x.own(inTx(ctx, tx), ""); err != nil {
			return err
		}
		for i, n := range x.numbers {
			if n.over >= 0 {
				continue
			}
			over := latency.high()
			if n.Measure == experiment.FirstToken {
				over = first.high()
			}
			if _, err := tx.ExecContext(ctx, "UPDATE experiment_metrics SET over_us = ? WHERE experiment = ? AND metric = ?", over, x.id, i); err != nil {
				return err
			}
		}
		return nil
	})
}

// keepReadouts keeps the verdicts and the days of the experiments whose numbers are kept.
func (k *experimentKeeper) keepReadouts(ctx context.Context, now time.Time) error {
	all, err := readTracked(ctx, k.db, "", "", ofDefinitions)
	if err != nil {
		return err
	}
	for _, x := range all {
		if x.what == "" || now.Before(x.plan().Start) {
			continue
		}
		d, err := x.data(ctx, k.db, now)
		if err != nil {
			return err
		}
		r := experiment.Read(d, now)
		if err := k.keepReadout(ctx, x, d, r.Verdicts(), r.Today(now)); err != nil {
			return err
		}
	}
	return nil
}

// keepReadout keeps the verdicts that are new, and the days that differ. After an edit the same
// verdict is a new one, of another time.
func (k *experimentKeeper) keepReadout(ctx context.Context, x *tracked, d *experiment.Data, verdicts []experiment.Verdict, days []experiment.Day) error {
	verdicts = slices.DeleteFunc(slices.Clone(verdicts), func(v experiment.Verdict) bool {
		return slices.ContainsFunc(d.Verdicts, func(kept experiment.Verdict) bool {
			return kept.Metric == v.Metric && kept.Arm == v.Arm && kept.State == v.State && kept.Time.Equal(v.Time)
		})
	})
	if slices.EqualFunc(days, d.Days[max(len(d.Days)-len(days), 0):], equalDays) {
		days = nil
	}
	if len(verdicts)+len(days) == 0 {
		return nil
	}
	k.wrote()
	return k.transact(ctx, func(tx *sql.Tx) error {
		current, err := queryInt(ctx, tx, "SELECT count(*) FROM experiments WHERE id = ? AND what <> '' AND since_ms = ?", x.id, x.since)
		if err != nil || current == 0 {
			return err
		}
		for i := range verdicts {
			v := &verdicts[i]
			if _, err := tx.ExecContext(ctx, "INSERT OR IGNORE INTO experiment_verdicts (experiment, since_ms, metric, arm, state, time_ms, units) VALUES (?, ?, ?, ?, ?, ?, ?)",
				x.id, x.since, v.Metric, v.Arm, v.State, v.Time.UnixMilli(), v.Units); err != nil {
				return err
			}
		}
		if len(days) > 0 { // an arm or a metric may be gone
			if _, err := tx.ExecContext(ctx, "DELETE FROM experiment_days WHERE experiment = ? AND since_ms = ? AND day = ?", x.id, x.since, dayOf(days[0].Day)); err != nil {
				return err
			}
		}
		for i := range days {
			d := &days[i]
			if _, err := tx.ExecContext(ctx, `
INSERT OR REPLACE INTO experiment_days (experiment, since_ms, day, metric, arm, place, units, difference, low, high) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
				x.id, x.since, dayOf(d.Day), d.Metric, d.Arm, i, d.Units, d.Difference, d.Low, d.High); err != nil {
				return err
			}
		}
		return nil
	})
}

const dayMillis = 24 * hourMillis

func dayOf(t time.Time) int64 { return t.UnixMilli() / dayMillis }

func equalDays(a, b experiment.Day) bool {
	same := func(a, b *float64) bool { return a == b || a != nil && b != nil && *a == *b }
	return a.Day.Equal(b.Day) && a.Metric == b.Metric && a.Arm == b.Arm && a.Units == b.Units &&
		same(a.Difference, b.Difference) && same(a.Low, b.Low) && same(a.High, b.High)
}
