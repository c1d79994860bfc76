package experiment

import (
	"time"

	"github.com/cadenza-gateway/cadenza/internal/sequential"
)

// Data are the numbers of an experiment that a store has.
type Data struct {
	// Plans are what the experiment's definition said, each from a time on. The last one
	// holds now.
	Plans []DatedPlan
	// Anew are the times at which the readout began anew, because what an arm answers with, or
	// the salt, was edited, the first being the begin of the first. The numbers are those
	// since the last.
	Anew []time.Time
	// Strata ascend by their begin.
	Strata []Stratum
	// Thresholds are those of the metrics, by their index in the last plan, where Over is
	// zero and the control had answers before the start.
	Thresholds map[int]time.Duration
	// Gone is since when no definition has the experiment. It is counted no further. Zero: one
	// has it.
	Gone time.Time
	// Unitless are answers that came to the split and whose unit was not recorded.
	Unitless int64
	// Through is the time up to which traces and reports are counted, and Pending about how
	// many are not.
	Through time.Time
	Pending int64
	// Verdicts are those that were reached, the oldest first.
	Verdicts []Verdict
	// Days are the intervals as they were at the end of each day, the oldest first; within a
	// day in the order of metrics and arms.
	Days []Day
}

// DatedPlan is a plan from a time on.
type DatedPlan struct {
	Since time.Time
	Plan  Plan
}

// Stratum are the units that were first seen while the split had certain shares.
type Stratum struct {
	Begin time.Time
	// Shares are the parts of all units that the arms had, PassedOn among them where it is
	// the control.
	Shares map[string]float64
	Arms   map[string]*Arm
}

// Arm are the sums of an arm in a stratum.
type Arm struct {
	Units int64 // first seen in the arm, and in no other
	// Moved are those that were first seen in it, and later in another. They are in no sums.
	Moved int64
	// FellBack are those of them that a fallback answered at least once.
	FellBack int64
	// Decided are the sums of each metric, by its index in the last plan, of all units. Served
	// are those of the units that no fallback answered.
	Decided, Served []Sums
}

// Sums are those of a metric.
type Sums struct {
	sequential.Sums
	Reported int64 // units with at least one number
}

// Verdict is what was said of a metric and an arm, and when for the first time.
type Verdict struct {
	Metric string    `json:"metric"`
	Arm    string    `json:"arm"`
	State  State     `json:"state"`
	Time   time.Time `json:"time"`
	Units  int64     `json:"units"` // of both arms
}

// Day is the interval of a metric's difference between an arm and the control at the end of
// a day, or now on the last one.
type Day struct {
	Day    time.Time `json:"day"` // its begin, UTC
	Metric string    `json:"metric"`
	Arm    string    `json:"arm"`
	Units  int64     `json:"units"` // of both arms
	// Difference is in the metric's own unit, as are Low and High. They are null before the
	// interval may be said.
	Difference *float64 `json:"difference"`
	Low        *float64 `json:"low"`
	High       *float64 `json:"high"`
}

// State is what can be said of a metric and an arm.
type State string

// The states.
const (
	NoData     State = "no_data"
	Collecting State = "collecting"
	Better     State = "better"
	Worse      State = "worse"
	NoEffect   State = "no_effect" // none larger than the smallest that matters
	Mismatch   State = "mismatch"  // the units are not divided by the split's shares
)
