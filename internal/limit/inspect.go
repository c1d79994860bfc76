package limit

import "time"

// Lease is what a limiter has of a counter that several limiters share.
type Lease struct {
	// Used is what this limiter's calls have used: a part of Standing.Used.
	Used int64
	// Left was granted to this limiter, and is neither used nor set aside.
	Left int64
	// Known reports that the ledger has answered in this window. Until it has,
	// Standing.Used lacks what the calls of other limiters have used.
	Known bool
}

// Inspect is AppendStandings for whoever looks closely. The standings have the subject
// that the calls are counted by: Others where there is no room for their own. There is a
// lease for each, nil where the counter is not shared.
func (l *Limiter) Inspect(workspace string, now time.Time, ask Ask) (standings []Standing, leases []*Lease) {
	at, shared := now.UnixNano(), l.fleet(workspace) != nil
	l.look(workspace, ask, func(a *account) {
		for i := range ask.Limit.Ceilings {
			of := &ask.Limit.Ceilings[i]
			c := a.find(of)
			s := l.standing(a, ask.Limit, of, c, at)
			if a == none {
				s.Subject = ask.Subject
			}
			standings = append(standings, s)
			var lease *Lease
			if shared && of.Measure != InFlight {
				lease = l.lease(c, at)
			}
			leases = append(leases, lease)
		}
	})
	return standings, leases
}

// lease returns what the limiter has of a shared counter, which may have no cell yet.
// The lock of the account's shard is held.
func (l *Limiter) lease(c *cell, now int64) *Lease {
	if c == nil || c.portion == nil {
		return new(Lease)
	}
	if start, _ := l.span(c.window, now); start > c.start {
		return new(Lease) // the window has ended, and its lease with it
	}
	return &Lease{Used: c.used, Left: max(c.left(), 0), Known: c.portion.known}
}
