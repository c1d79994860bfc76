package rollout

import (
	"fmt"
	"time"
)

// Asked is what a person asks of a rollout: Hold, Back, Resume or Finish. The error says why it
// is not possible. An edition that another one overtook is taken up again by it.
func (p *Plan) Asked(rows []Row, kind Kind, by string, now time.Time) (*Row, error) {
	verb, known := verbs[kind]
	if !known {
		return nil, fmt.Errorf("a rollout can't be asked to %s", kind)
	}
	s, ok := Stand(rows, p.Edition)
	if !ok {
		return nil, fmt.Errorf("the rollout has not started: there is nothing to %s", verb)
	}
	share := s.Row.Share
	switch {
	case kind == Hold && s.State == Running:
	case kind == Back && s.State != Returned:
		share = 0
	case kind == Resume && s.State == Held, kind == Resume && s.State == Running && s.Overtaken:
	case kind == Resume && s.State == Returned:
		share = p.Steps[0]
	case kind == Finish && s.State != Finished:
		share = Whole
	default:
		return nil, fmt.Errorf("the rollout is %s: there is nothing to %s", s.State, verb)
	}
	row := p.row(rows, kind, share, now)
	row.By, row.Why = by, "asked by a person"
	return row, nil
}

// verbs are what a person can ask for, in words.
var verbs = map[Kind]string{Hold: "hold", Back: "take back", Resume: "resume", Finish: "finish"}
