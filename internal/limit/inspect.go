package limit

import "time"

// Lease is a limiter's part of a counter that several limiters share.
type Lease struct {
	// Used is the use of this limiter's calls: a part of Standing.Used.
	Used int64
	// Left was granted to this limiter, and is neither used nor set aside.
	Left int64
	// Known reports that the ledger has answered in this window. Until then,
	// Standing.Used lacks the use of other limiters' calls.
	Known bool
}

// Inspect is AppendStandings with more detail. The standings have the subject under which
// the calls count: Others if their own has no counters. Each standing has a lease, which
// is nil if the counter is not shared.
func (l *Limiter) Inspect(workspace string, now time.Time, ask Ask) (standings []Standing, leases []*Lease) {
	at, shared := now.UnixNano(), l.fleet(workspace) != nil
	l.look(workspace, ask, func(a *account) {
		for i := range ask.Limit.Ceilings {
			ceiling := &ask.Limit.Ceilings[i]
			c := a.find(ceiling)
			s := l.standing(a, ask.Limit, ceiling, c, at)
			if a == noAccount {
				s.Subject = ask.Subject
			}
			standings = append(standings, s)
			var lease *Lease
			if shared && ceiling.Measure != InFlight {
				lease = l.lease(c, at)
			}
			leases = append(leases, lease)
		}
	})
	return standings, leases
}

// lease returns the limiter's part of a shared counter; c is nil if it has no cell yet. The
// caller holds the lock of the account's shard.
func (l *Limiter) lease(c *cell, now int64) *Lease {
	if c == nil || c.portion == nil {
		return new(Lease)
	}
	if start, _ := c.window.span(now); start > c.start {
		return new(Lease) // the window has ended, and its lease with it
	}
	return &Lease{Used: c.used, Left: max(c.left(), 0), Known: c.portion.known}
}
