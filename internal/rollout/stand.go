package rollout

import "time"

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
func Stand(rows []Row, edition string) (s Standing, ok bool) {
	for i := range rows {
		row := &rows[i]
		if s.Overtaken = row.Edition != edition; s.Overtaken {
			continue
		}
		s.Row, ok = *row, true
		if row.Kind == Start || row.Kind == Resume {
			s.Since = row.Time
		}
	}
	switch {
	case s.Row.Share == Whole:
		s.State = Finished
	case s.Row.Kind == Hold:
		s.State = Held
	case s.Row.Kind == Back:
		s.State = Returned
	default:
		s.State = Running
	}
	return s, ok
}

// Anew returns the row by which an edition starts again that others have overtaken. It is for
// the gateway whose definitions came back to it: rows alone do not tell that.
func (p *Plan) Anew(rows []Row, now time.Time) *Row {
	row := p.row(rows, Start, p.Steps[0], now)
	row.Why = "the definitions are back at an earlier edition"
	return row
}

// row returns the row that follows on others. Its time is after theirs, though the clock may
// have been set back.
func (p *Plan) row(rows []Row, kind Kind, share int, now time.Time) *Row {
	row := &Row{Rollout: p.Name(), Number: 1, Time: now.UTC().Truncate(time.Millisecond), Kind: kind, Share: share, Edition: p.Edition}
	if n := len(rows); n > 0 {
		last := &rows[n-1]
		row.Number = last.Number + 1
		if least := last.Time.UTC().Truncate(time.Millisecond).Add(time.Millisecond); row.Time.Before(least) {
			row.Time = least
		}
	}
	return row
}
