package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/recorder"
)

const (
	keepExperimentSQL = "INSERT INTO experiments (workspace, name) VALUES (?, ?) ON CONFLICT DO UPDATE SET gone_ms = NULL"

	// A plan that is served again after another is another row. Times ascend even if the
	// clock does not.
	keepPlanSQL = `
INSERT INTO experiment_plans (experiment, since_ms, plan)
SELECT id, max(?3, coalesce(1 + (SELECT max(since_ms) FROM experiment_plans WHERE experiment = id), 0)), ?4 FROM experiments
WHERE workspace = ?1 AND name = ?2 AND ?4 IS NOT (SELECT plan FROM experiment_plans WHERE experiment = id ORDER BY since_ms DESC LIMIT 1)`

	loseExperimentsSQL = `
UPDATE experiments SET gone_ms = ?2 WHERE workspace = ?1 AND gone_ms IS NULL AND name NOT IN (SELECT value FROM json_each(?3))`

	loseRolloutsSQL = `
UPDATE rollout_rows SET gone_ms = CASE WHEN rollout NOT IN (SELECT value FROM json_each(?3)) THEN ?2 END
WHERE workspace = ?1 AND (gone_ms IS NULL) = (rollout NOT IN (SELECT value FROM json_each(?3)))`
)

// keepPlans keeps the plans of a workspace that differ from the last ones of their names.
// Those whose names are gone are counted no further.
func keepPlans(writer *native, e *recorder.Experiments) error {
	workspace, at := textValue(e.Workspace), integerValue(e.Time.UnixMilli())
	names := make([]string, len(e.Plans))
	for i := range e.Plans {
		names[i] = e.Plans[i].Name
		plan, err := json.Marshal(&e.Plans[i])
		if err != nil {
			return err
		}
		if err := writer.execute(keepExperimentSQL, workspace, textValue(names[i])); err != nil {
			return err
		}
		if err := writer.execute(keepPlanSQL, workspace, textValue(names[i]), at, textValue(string(plan))); err != nil {
			return err
		}
	}
	list, err := json.Marshal(names)
	if err != nil {
		return err
	}
	if err := writer.execute(loseExperimentsSQL, workspace, at, textValue(string(list))); err != nil || e.Rollouts == nil {
		return err
	}
	if list, err = json.Marshal(e.Rollouts); err != nil {
		return err
	}
	return writer.execute(loseRolloutsSQL, workspace, at, textValue(string(list)))
}

// metric is what is counted of a metric. Metrics that differ in other members have the same
// numbers.
type metric struct {
	Value   string             `json:"value,omitempty"`
	Measure experiment.Measure `json:"measure,omitempty"`
	As      experiment.As      `json:"as"`
	Over    time.Duration      `json:"over,omitempty"`
	// over is the threshold in microseconds: 0 if the control had no answers, negative before
	// it is known.
	over int64
}

func metricOf(m *experiment.Metric) metric {
	return metric{Value: m.Value, Measure: m.Measure, As: m.As, Over: m.Over}
}

// is reports whether n and other are the same number, whatever the threshold came to.
func (n metric) is(other metric) bool {
	n.over, other.over = 0, 0
	return n == other
}

// hasPast reports whether the past of units is counted.
func (n metric) hasPast() bool { return n.As == experiment.Mean || n.As == experiment.Total }

// timed reports whether a threshold is needed.
func (n metric) timed() bool {
	return n.Measure == experiment.Latency || n.Measure == experiment.FirstToken
}

// counts is what decides which rows an experiment counts. After an edit of it all rows are
// counted again.
type counts struct {
	On, Rule, Unit, Control string
	Attribution             time.Duration
	Start                   int64
	Shared                  bool `json:",omitempty"` // another count begins with all units to be given
}

func countsOf(p *experiment.Plan) counts {
	return counts{p.On, p.Rule, p.Unit, p.Control, p.Attribution, p.Start.UnixMilli(), p.Shared}
}

// tracked is an experiment as the store has it.
type tracked struct {
	id                     int64
	workspace, name        string
	gone                   int64 // since when no definition has it; 0: one does
	readout                int64
	answers                string
	since                  int64
	what                   string
	end                    int64
	cursors                // up to which rows are counted
	fromMetrics            int64
	to                     cursors // of the step that is being written
	step, writes           int64
	counted, unitless      int64
	before                 bool // the split answered before the start
	plans                  []experiment.DatedPlan
	numbers                []metric
	strata                 []*stratum
	start, past, attribute int64 // of the last plan, in milliseconds; past is when the past begins
}

// stratum is a row of experiment_strata.
type stratum struct {
	number       int64
	about        string
	begin, units int64
	shares       map[string]float64
}

func (x *tracked) plan() *experiment.Plan { return &x.plans[len(x.plans)-1].Plan }

// expires returns when the numbers are deleted.
func (x *tracked) expires() time.Time { return x.plan().End.Add(experiment.Kept) }

// placeOf returns the place of a metric's numbers, negative if they are not counted.
func (x *tracked) placeOf(m *experiment.Metric) int {
	return slices.IndexFunc(x.numbers, metricOf(m).is)
}

// has reports whether a number of the kind is counted.
func (x *tracked) has(kind func(metric) bool) bool { return slices.ContainsFunc(x.numbers, kind) }

// which chooses the plans of experiments, those of rollouts, or both.
type which string

// Names of rollouts' plans begin so, and no others.
const (
	ofDefinitions which = "name NOT GLOB 'rollout *'"
	ofRollouts    which = "name GLOB 'rollout *'"
	ofBoth        which = "1"
)

// readTracked reads the experiments of a workspace, or of all, without their strata.
func readTracked(ctx context.Context, db querier, workspace, name string, of which) ([]*tracked, error) {
	all, err := collect(ctx, db, func(scan func(...any) error) (*tracked, error) {
		x := new(tracked)
		return x, scan(&x.id, &x.workspace, &x.name, &x.gone, &x.readout, &x.answers, &x.since, &x.what, &x.end, &x.traces, &x.metrics,
			&x.fromMetrics, &x.to.traces, &x.to.metrics, &x.step, &x.writes, &x.counted, &x.unitless, &x.before)
	}, `
SELECT id, workspace, name, coalesce(gone_ms, 0), readout, answers, since_ms, what, end_ms, traces, metrics,
	from_metrics, to_traces, to_metrics, step, writes, counted_ms, unitless, answered_before
FROM experiments WHERE ?1 IN ('', workspace) AND ?2 IN ('', name) AND `+string(of)+" ORDER BY workspace, name", workspace, name)
	if err != nil {
		return nil, err
	}
	for _, x := range all {
		if err := x.read(ctx, db); err != nil {
			return nil, err
		}
	}
	// A plan that cannot be read was written by another program.
	return slices.DeleteFunc(all, func(x *tracked) bool { return len(x.plans) == 0 }), nil
}

// read reads the plans and numbers.
func (x *tracked) read(ctx context.Context, db querier) (err error) {
	x.plans, err = collect(ctx, db, func(scan func(...any) error) (p experiment.DatedPlan, err error) {
		var since int64
		var plan []byte
		if err := scan(&since, &plan); err != nil {
			return p, err
		}
		p.Since = time.UnixMilli(since).UTC()
		return p, json.Unmarshal(plan, &p.Plan)
	}, "SELECT since_ms, plan FROM experiment_plans WHERE experiment = ? ORDER BY since_ms", x.id)
	if _, unreadable := errors.AsType[*json.UnmarshalTypeError](err); unreadable {
		x.plans, err = nil, nil
	}
	if err != nil || len(x.plans) == 0 {
		return err
	}
	p := x.plan()
	x.start, x.attribute = p.Start.UnixMilli(), p.Attribution.Milliseconds()
	x.numbers, err = collect(ctx, db, func(scan func(...any) error) (n metric, err error) {
		var what []byte
		if err := scan(&what, &n.over); err != nil {
			return n, err
		}
		return n, json.Unmarshal(what, &n)
	}, "SELECT what, coalesce(over_us, -1) FROM experiment_metrics WHERE experiment = ? ORDER BY metric", x.id)
	x.past = x.begins().UnixMilli()
	return err
}

// begins returns from when on rows matter.
func (x *tracked) begins() time.Time {
	p := x.plan()
	if !p.Rollout && x.has(metric.hasPast) {
		return p.Start.Add(-experiment.Past)
	}
	return p.Start
}

// readStrata reads the strata of the readout.
func (x *tracked) readStrata(ctx context.Context, db querier) (err error) {
	x.strata, err = collect(ctx, db, func(scan func(...any) error) (*stratum, error) {
		s := new(stratum)
		var shares []byte
		if err := scan(&s.number, &s.about, &s.begin, &s.units, &shares); err != nil {
			return nil, err
		}
		return s, json.Unmarshal(shares, &s.shares)
	}, "SELECT stratum, about, begin_ms, units, shares FROM experiment_strata WHERE experiment = ? AND readout = ? ORDER BY stratum", x.id, x.readout)
	return err
}
