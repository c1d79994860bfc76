package experiment

import "time"

// Readout is what can be said of an experiment.
type Readout struct {
	Name       string    `json:"name"`
	On         string    `json:"on"`
	Rule       string    `json:"rule"`
	Unit       string    `json:"unit"`
	Control    string    `json:"control"`
	Hypothesis string    `json:"hypothesis,omitempty"`
	Owner      string    `json:"owner,omitempty"`
	Start      time.Time `json:"start"`
	End        time.Time `json:"end"`
	// Begun is when the numbers begin: at the start, or when what an arm answers with was
	// edited last.
	Begun   time.Time `json:"begun"`
	Through time.Time `json:"through,omitzero"` // up to which traces and reports are counted
	Pending int64     `json:"pending"`          // about how many are not
	// State is that of the primary metric: of several arms that of the best one. Says is the
	// whole in a sentence.
	State State  `json:"state"`
	Says  string `json:"says"`
	Split Split  `json:"split"`
	Arms  []Seen `json:"arms"` // the control first
	// Metrics begin with the primary one.
	Metrics  []MetricReadout `json:"metrics"`
	Changes  []Change        `json:"changes,omitempty"`
	Excluded []Excluded      `json:"excluded,omitempty"`
	Days     []Day           `json:"days,omitempty"`
	Warnings []string        `json:"warnings,omitempty"`

	over time.Time // from when on nothing counts any more
}

// Split says whether the units are divided as the split's shares say.
type Split struct {
	Mismatch bool `json:"mismatch"`
	// Factor is the Bayes factor against the shares; a mismatch begins at 1,000.
	Factor float64 `json:"factor"`
}

// Seen are the units of an arm.
type Seen struct {
	Arm      string  `json:"arm"`
	Expected float64 `json:"expected"` // its part of all units by the split's shares
	Units    int64   `json:"units"`
	FellBack int64   `json:"fell_back"` // a fallback answered them at least once
}

// MetricReadout is what can be said of a metric.
type MetricReadout struct {
	Metric
	// Needed is how many units both arms of a comparison need together for the smallest
	// difference that matters to be found, if the control's numbers stay. Zero: not known yet.
	Needed      int64        `json:"needed"`
	Arms        []ArmReadout `json:"arms"`        // the control first
	Comparisons []Comparison `json:"comparisons"` // of each other arm
}

// ArmReadout is a metric's number in an arm.
type ArmReadout struct {
	Arm      string   `json:"arm"`
	Units    int64    `json:"units"`    // that count
	Reported int64    `json:"reported"` // those with at least one number
	Value    *float64 `json:"value"`    // null: there is none
}

// Comparison is that of an arm with the control.
type Comparison struct {
	Arm   string `json:"arm"`
	State State  `json:"state"`
	Why   string `json:"why,omitempty"` // such as what it waits for
	// Since is when the state was reached first, of Better, Worse and NoEffect.
	Since time.Time `json:"since,omitzero"`
	Level float64   `json:"level"` // by which the intervals hold at all times at once, such as 0.975
	// Absolute is in the metric's own unit, Relative a part of the control's number. Served
	// is the absolute one of units that no fallback answered. Each is null before it may be
	// said.
	Absolute *Interval `json:"absolute"`
	Relative *Interval `json:"relative"`
	Served   *Interval `json:"served"`
}

// Interval has the true difference at all times at once, with the probability of its level.
type Interval struct {
	Difference float64 `json:"difference"`
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
}

// Change is an edit of the experiment after its start.
type Change struct {
	Time time.Time `json:"time"`
	What string    `json:"what"` // such as "end: 2026-12-01T00:00:00Z -> 2026-12-15T00:00:00Z"
}

// Excluded are units, or answers, that do not count.
type Excluded struct {
	Why   string `json:"why"`
	Count int64  `json:"count"`
}
