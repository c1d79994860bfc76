package rules

import "time"

const (
	// rampStep is how often a ramp counts as a change while it runs.
	rampStep = time.Minute
	// nowStep is how often a table counts as changed whose expressions read the instant: on
	// such quarters of an hour days and hours begin in all time zones.
	nowStep = 15 * time.Minute
)

// NextChange returns the first instant after now from which on the table may answer the
// same context in another way. It is zero if the passing of time alone changes nothing. A
// ramp changes every minute while it runs, and a table that reads now every quarter of an
// hour, so all gateways with the same table find the same instants.
func (t *Table) NextChange(now time.Time) time.Time {
	var next time.Time
	sooner := func(at time.Time) {
		if at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if t.readsNow {
		sooner(now.Truncate(nowStep).Add(nowStep))
	}
	key := dateKey(now)
	for _, s := range t.timed {
		if i := above(s.instants, key); i < len(s.instants) {
			sooner(time.UnixMicro(s.instants[i]))
		}
		for _, r := range s.ramps {
			sooner(time.UnixMicro(r.start))
			sooner(time.UnixMicro(r.end))
			if r.start <= key && key < r.end {
				sooner(now.Truncate(rampStep).Add(rampStep))
			}
		}
	}
	return next
}
