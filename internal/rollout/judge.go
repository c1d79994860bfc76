package rollout

import (
	"time"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
)

// Standing is how a rollout stands by its rows.
type Standing struct {
	State State
	Row   Row       // the last of the edition
	Since time.Time // of the last Start or Resume, from when on evidence counts
	// Overtaken reports that the last row of all is of another edition: this one takes no
	// steps, and answers by its own last row.
	Overtaken bool
}

// Stand returns how an edition stands by the rows of its rollout, and false if none of them is
// of it.
func Stand(rows []Row, edition string) (s Standing, ok bool) { panic("not written yet") }

// Experiment returns what a store counts for the guards, from a time on. Its name begins with
// "rollout ", which no definition's does.
func (p *Plan) Experiment(since time.Time) experiment.Plan { panic("not written yet") }

// Weigh returns what the guards see in the numbers of Plan.Experiment.
func (p *Plan) Weigh(d *experiment.Data) *Evidence { panic("not written yet") }

// Next returns the row that is due, nil for none, and in a sentence what the rollout waits for.
// Without rows of the edition that is Start. e is nil where the evidence is not known: then
// nothing is due, and failed is why.
func (p *Plan) Next(rows []Row, e *Evidence, failed error, now time.Time) (row *Row, says string) {
	panic("not written yet")
}

// Asked is what a person asks of a rollout: Hold, Back, Resume or Finish. The error says why it
// is not possible.
func (p *Plan) Asked(rows []Row, kind Kind, by string, now time.Time) (*Row, error) {
	panic("not written yet")
}
