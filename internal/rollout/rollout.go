// Package rollout is the state of guarded rollouts: a split that gives a new answer to more
// and more units, step by step, for as long as its guards see no harm.
//
// A rollout is a pure function of its rows: each start, step, hold and return is one, numbered
// from 1 without gaps, and all gateways that share the rows answer by the last one they know.
package rollout

import (
	"context"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
)

// The buckets of a guarded split, of 100,000 (see rules.Buckets). New owns those below Half,
// of which it has the first Row.Share. As many from Half on are the control that is compared
// with it. All others are answered as the control, and compared with nothing. So no unit that
// has the new answer loses it by a step, and a unit of the control moves at Whole alone.
const (
	Half  = 50_000
	Whole = 100_000
)

// The arms of a guarded split in a configuration. Those of variants are called by the keys of
// their variants.
const (
	New     = "new"
	Control = "control"
)

// Plan is what the guard of a split says, made whole.
type Plan struct {
	// On is the definition whose table has the split, as in remoteconfigs/button, and Rule
	// the id of its row. Salt and Unit are those of the split.
	On   string `json:"on"`
	Rule string `json:"rule"`
	Salt string `json:"salt"`
	Unit string `json:"unit"`
	// New and Control are the arms as traces call them.
	New     string `json:"new"`
	Control string `json:"control"`
	// Steps ascend: how many buckets New has. They are at most Half, or Whole.
	Steps []int `json:"steps"`
	// Every is how long a step lasts at least, and Need how many units of New must be seen
	// before the next.
	Every time.Duration `json:"every"`
	Need  int64         `json:"need"`
	Stops []Stop        `json:"stops"`
	Then  Then          `json:"then"`
	// Edition is the hash of what the guard says and of what New answers. Another edition
	// starts the rollout anew; no other edit does.
	Edition string `json:"edition"`
}

// Name returns the rollout's name, as in remoteconfigs/button/colours.
func (p *Plan) Name() string { return p.On + "/" + p.Rule }

// Then is what evidence of harm does.
type Then string

// What evidence of harm does: the share stays as it is, or becomes 0.
const (
	ThenHold Then = "hold"
	ThenBack Then = "back"
)

// Stop is a guard: it tolerates a number of New's units up to Ratio times that of the
// control's. Where Ratio is below 1, less than it is harm.
type Stop struct {
	// Value is the name of a number in reports; or Measure is what the gateway measures.
	Value   string             `json:"value,omitempty"`
	Measure experiment.Measure `json:"measure,omitempty"`
	// As is Rate, Mean, Total or Ratio. Ratio of what happens or does not (error, fallback,
	// times over a threshold) is judged twice: as the ratio of all answers, and as the rate of
	// the units that it happened to at least once.
	As experiment.As `json:"as"`
	// Over is that of experiment.Metric.
	Over  time.Duration `json:"over,omitempty"`
	Ratio float64       `json:"ratio"`
}

// Name returns what users call the guard: its value or measure.
func (s *Stop) Name() string {
	if s.Value != "" {
		return s.Value
	}
	return string(s.Measure)
}

// Kind is what a row does.
type Kind string

// The kinds of rows. Start and Step are the gateway's, Hold and Back also a person's, Resume
// and Finish a person's alone.
const (
	Start  Kind = "start"  // the first step of an edition
	Step   Kind = "step"   // the next step
	Hold   Kind = "hold"   // stays where it is, until a person resumes
	Back   Kind = "back"   // all units are answered as the control
	Resume Kind = "resume" // goes on from where it was held; after Back from the first step
	Finish Kind = "finish" // all units get the new answer
)

// Row is a change of a rollout.
type Row struct {
	Rollout string    `json:"rollout"` // Plan.Name
	Number  int64     `json:"number"`  // from 1, without gaps
	Time    time.Time `json:"time"`    // in milliseconds
	Kind    Kind      `json:"kind"`
	Share   int       `json:"share"` // how many buckets New has from now on
	Edition string    `json:"edition"`
	// By is the person or the gateway that made the row, and Why a sentence.
	By  string `json:"by,omitempty"`
	Why string `json:"why,omitempty"`
	// Evidence is what was known, as it was judged. It is nil for rows of persons and Start.
	Evidence *Evidence `json:"evidence,omitempty"`
}

// Evidence is what the guards see of a rollout since its last Start or Resume.
type Evidence struct {
	Since   time.Time `json:"since"`
	Through time.Time `json:"through,omitzero"` // up to which traces and reports are counted
	Units   int64     `json:"units"`            // of New
	Control int64     `json:"control"`          // of the control that is compared
	// Mismatch reports that the units are not divided as the split's shares say.
	Mismatch bool    `json:"mismatch,omitempty"`
	Guards   []Guard `json:"guards"`
}

// Harm reports whether a guard sees harm.
func (e *Evidence) Harm() bool {
	for i := range e.Guards {
		if e.Guards[i].Harm {
			return true
		}
	}
	return false
}

// Guard is what one guard sees.
type Guard struct {
	Name    string   `json:"name"` // of Stop
	Ratio   float64  `json:"ratio"`
	New     *float64 `json:"new"`     // its number; null: there is none
	Control *float64 `json:"control"` // null: there is none
	Harm    bool     `json:"harm"`
	// Strength is the evidence of harm as a part of what is needed: 1 and more is harm.
	Strength float64 `json:"strength"`
	// Says is a sentence, such as what it waits for.
	Says string `json:"says"`
}

// Log has the rows of the rollouts of a workspace, in the gateway's own store or in a database
// that a fleet shares.
type Log interface {
	// Rows returns the rows whose numbers are above those in known, by rollout, in the order
	// of their numbers. A nil map returns all.
	Rows(ctx context.Context, known map[string]int64) ([]Row, error)
	// Add adds a row, and reports whether it did: it does not where there is one of its
	// number.
	Add(ctx context.Context, row *Row) (added bool, err error)
}

// Fleet is the database that gateways share.
type Fleet interface {
	Log
	// Await returns when another gateway may have added a row, or an error. It is called on
	// one goroutine, beside the other methods.
	Await(ctx context.Context) error
	// Put stores units as a gateway has counted them, in place of those that it has put
	// before. Node names the gateway's store. Numbers are those of CountedUnit.
	Put(ctx context.Context, node, rollout string, since time.Time, units []CountedUnit) error
	// Sums returns the sums of all gateways' units, each unit once, of the plan's
	// experiment (see Plan.Experiment). ok is false where another gateway is reading them.
	Sums(ctx context.Context, p *experiment.Plan, rollout string, since time.Time) (d *experiment.Data, ok bool, err error)
	// Forget deletes the units of a rollout that were put before since.
	Forget(ctx context.Context, rollout string, since time.Time) error
	// Close ends the connections. It is called once, after the other methods have returned.
	Close() error
}

// CountedUnit is a unit as a gateway has counted it.
type CountedUnit struct {
	Unit  string // the keyed hash that splits have
	Arm   string // of its first exposure
	First time.Time
	Moved bool // another arm answered it later
	// Numbers are three of each metric of the plan's experiment: how many there are, their
	// sum, and how many are above 0.
	Numbers []float64
}

// State is how a rollout stands.
type State string

// The states.
const (
	Running  State = "running"  // takes the next step when it may
	Held     State = "held"     // until a person resumes
	Returned State = "returned" // all units are answered as the control, until a person resumes
	Finished State = "finished" // all units get the new answer
)
