package rollout

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
)

// Next returns the row that is due, nil for none, and in a sentence what the rollout waits for.
// Without rows of the edition that is Start. e is nil where the evidence is not known: then
// nothing is due, and failed is why.
func (p *Plan) Next(rows []Row, e *Evidence, failed error, now time.Time) (row *Row, says string) {
	s, ok := Stand(rows, p.Edition)
	if !ok {
		return p.due(rows, Start, p.Steps[0], nil, "the first step is "+percent(p.Steps[0]), now)
	}
	if s.Overtaken { // gateways with different definitions must not fight
		return nil, fmt.Sprintf("row %d is of other definitions of the rollout, which overtook these: they take no steps, and stay at %s until a person resumes", rows[len(rows)-1].Number, percent(s.Row.Share))
	}
	if s.State == Finished {
		return nil, "all units get the new answer"
	}
	if s.State == Returned {
		return nil, "all units are answered as the control until a person resumes: " + s.Row.because()
	}
	known := e != nil && e.Since.Equal(s.Since)
	if known && e.Harm() && (s.State == Running || p.Then == ThenBack) {
		if p.Then == ThenBack {
			return p.due(rows, Back, 0, e, e.harm(), now)
		}
		return p.due(rows, Hold, s.Row.Share, e, e.harm(), now)
	}
	if s.State == Held {
		return nil, fmt.Sprintf("it stays at %s until a person resumes: %s", percent(s.Row.Share), s.Row.because())
	}
	at := "it stays at " + percent(s.Row.Share)
	switch {
	case e == nil && failed != nil:
		return nil, fmt.Sprintf("%s: its numbers are not known: %v", at, failed)
	case e == nil:
		return nil, at + ": its numbers are not known yet"
	case !known:
		return nil, fmt.Sprintf("%s: its numbers are those since %s, and it begins at %s", at, instant(e.Since), instant(s.Since))
	case e.Mismatch:
		return nil, at + ": its units, or those with a number, are not divided as its shares say, and nothing is said of them until that is understood"
	}
	next := p.after(s.Row.Share)
	if next == 0 {
		return nil, "the last step is " + percent(s.Row.Share) + ": a person finishes it or takes it back"
	}
	if g := e.without(); g != nil {
		return nil, fmt.Sprintf("%s: %s says nothing: %s", at, g.Name, g.Says)
	}
	step := "the step to " + percent(next)
	needs := fmt.Sprintf("needs %d units of %s, there are %d", p.Need, p.New, e.Units)
	if due := s.Row.Time.Add(p.Every); now.Before(due) {
		if step += " is due at " + instant(due); p.Need > e.Units {
			step += ", and " + needs
		}
		return nil, step
	}
	if e.Units < p.Need {
		return nil, at + ": " + step + " " + needs
	}
	return p.due(rows, Step, next, e, fmt.Sprintf("no guard sees harm by %d units of %s and %d of %s", e.Units, p.New, e.Control, p.Control), now)
}

// due returns a row and its reason.
func (p *Plan) due(rows []Row, kind Kind, share int, e *Evidence, why string, now time.Time) (*Row, string) {
	row := p.row(rows, kind, share, now)
	row.Evidence, row.Why = e, why
	return row, why
}

// after returns the step that follows on a share, 0 for none.
func (p *Plan) after(share int) int {
	for _, step := range p.Steps {
		if step > share {
			return step
		}
	}
	return 0
}

// harm returns what the guards that see harm say.
func (e *Evidence) harm() string {
	var says []string
	for i := range e.Guards {
		if g := &e.Guards[i]; g.Harm {
			says = append(says, g.Name+": "+g.Says)
		}
	}
	return strings.Join(says, "; ")
}

// without returns a guard of which one arm has no number.
func (e *Evidence) without() *Guard {
	for i := range e.Guards {
		if g := &e.Guards[i]; g.New == nil || g.Control == nil {
			return g
		}
	}
	return nil
}

// because returns who made the row, and why.
func (r *Row) because() string {
	return fmt.Sprintf("row %d of %s, %s", r.Number, cmp.Or(r.By, "a gateway"), cmp.Or(r.Why, "for no reason"))
}

// percent returns the part of all units that a share is.
func percent(share int) string {
	return experiment.Number(float64(share)*100/Whole) + " %"
}

func instant(t time.Time) string { return t.UTC().Format(time.RFC3339) }
