// Package experiment reads what units did after a split divided them: which arm won, by how
// much, and whether that may be said yet.
package experiment

import (
	"slices"
	"time"
)

// Plan says what an experiment reads, and how. It is what a definition of the folder
// experiments says, made whole: a plan has no defaults.
type Plan struct {
	Name string `json:"name"`
	// On is the definition whose table has the split, as in remoteconfigs/button, and Rule
	// the id of its row.
	On   string `json:"on"`
	Rule string `json:"rule"`
	// Salt is that of the split.
	Salt string `json:"salt"`
	// Arms are the arms of the split as traces call them, in the order of the definition,
	// and Control is one of them, or PassedOn.
	Arms    []string `json:"arms"`
	Control string   `json:"control"`
	// Unit is the field whose values the split divides.
	Unit string `json:"unit"`
	// Attribution is for how long after its first exposure what a unit does counts. Zero:
	// until End.
	Attribution time.Duration `json:"attribution,omitempty"`
	// Units that are first seen from Start to before End count.
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	// Metrics begin with the primary one, others and guardrails follow.
	Metrics    []Metric `json:"metrics"`
	Hypothesis string   `json:"hypothesis,omitempty"`
	Owner      string   `json:"owner,omitempty"`
	// Rollout reports that it is of a rollout's guards, and of no definition: no past of its
	// units is read, lists leave it out, and its numbers are deleted once it is gone.
	Rollout bool `json:"rollout,omitempty"`
	// Shared reports that a fleet shares the numbers of its units: the store keeps which of
	// them it has yet to be given.
	Shared bool `json:"shared,omitempty"`
}

// PassedOn is a control that is no arm: the units that the split leaves to the rows below.
const PassedOn = "passed_on"

// Treatments returns the arms but for the control.
func (p *Plan) Treatments() []string {
	return slices.DeleteFunc(slices.Clone(p.Arms), func(arm string) bool { return arm == p.Control })
}

// Metric is a number by which arms are compared.
type Metric struct {
	Name string `json:"name"`
	Role Role   `json:"role"`
	// Value is the name of a number in reports; or Measure is what the gateway measures of
	// the answers that came to the split.
	Value   string  `json:"value,omitempty"`
	Measure Measure `json:"measure,omitempty"`
	As      As      `json:"as"`
	// Over is the threshold of the measures Latency and FirstToken, which count the answers
	// that took longer. Zero: the 95th percentile of the control's answers in the week before
	// the start.
	Over time.Duration `json:"over,omitempty"`
	// Up reports whether more is better.
	Up bool `json:"up"`
	// Smallest is the smallest difference that matters, above zero: in the metric's own unit, or
	// as a part of the control's where Relative is set. Of a guardrail: how much worse is
	// tolerated.
	Smallest float64 `json:"smallest"`
	Relative bool    `json:"relative,omitempty"`
}

// Role is what a metric is for.
type Role string

// The roles. An experiment has one primary metric, which decides.
const (
	Primary   Role = "primary"
	Other     Role = "other"
	Guardrail Role = "guardrail"
)

// Measure is what the gateway measures of an answer.
type Measure string

// The measures.
const (
	Error      Measure = "error"       // 1 for an answer that failed
	Fallback   Measure = "fallback"    // 1 where another than the first target answered
	Latency    Measure = "latency"     // 1 for an answer that took longer than Metric.Over
	FirstToken Measure = "first_token" // the same of the time to the first token
	Cost       Measure = "cost"        // US dollars
	Tokens     Measure = "tokens"      // in all
	Score      Measure = "score"       // of reports on the answer
)

// Measures lists the measures.
var Measures = []Measure{Error, Fallback, Latency, FirstToken, Cost, Tokens, Score}

// IsPart reports whether the metric's numbers are parts, from 0 to 1, of units or of answers.
func (m *Metric) IsPart() bool {
	return m.As == Rate || m.As != Total && slices.Contains([]Measure{Error, Fallback, Latency, FirstToken}, m.Measure)
}

// As is what is made of the numbers of a unit.
type As string

// The ways. Of a unit with the numbers 0, 2 and 4:
const (
	Rate  As = "rate"  // 1: it has a number above 0. A unit without numbers has 0
	Mean  As = "mean"  // 2: its mean. A unit without numbers does not count
	Total As = "total" // 6: their sum. A unit without numbers has 0
	Ratio As = "ratio" // 6 of 3: the sum of all units' numbers by how many there are
)

// AllAs lists the ways.
var AllAs = []As{Rate, Mean, Total, Ratio}

// Past is how long before the start of an experiment the past of its units is read, by which
// the variance of Mean and Total becomes less.
const Past = 14 * 24 * time.Hour

// Kept is how long after its end an experiment's numbers are kept.
const Kept = 30 * 24 * time.Hour
