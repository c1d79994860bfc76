package inflight

import "time"

// HostLimit is the ceiling of calls at a host.
type HostLimit struct {
	Most int
	// Adaptive has the ceiling fall below Most while the host is overloaded.
	Adaptive bool
}

// cut is what an overload leaves of the calls that were in flight.
const cut = 0.7

// adapted is the ceiling of a host that was overloaded. It follows TCP's rule of
// additive increase and multiplicative decrease (Chiu and Jain, 1989): an overload cuts
// it to 70 % of the calls that were in flight, and as many answers as the ceiling is
// high raise it by one.
//
// Example: a host with a ceiling of 200 answers 503 while 50 calls are in flight: the
// ceiling is 35. The other 49 began under the old ceiling, so their failures change
// nothing. After 35 answers the ceiling is 36, after 36 more 37, and so on up to 200.
type adapted struct {
	ceiling float64
	since   time.Time // of the last cut
}

// ceiling returns how many calls a host may have. It holds c.mu.
func (c *Calls) ceiling(host string, limit HostLimit) int {
	if a := c.adapted[host]; a != nil && limit.Adaptive {
		return min(int(a.ceiling), limit.Most)
	}
	return limit.Most
}

// HostCeiling returns how many calls a host may have in flight at present.
func (c *Calls) HostCeiling(host string, limit HostLimit) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ceiling(host, limit)
}

// Overloaded notes that a host did not bear a call that began at that time and has
// not left yet. Its adaptive ceiling falls, though never below 1. A call that began
// before the last fall changes nothing: it says nothing of the new ceiling.
func (c *Calls) Overloaded(host string, limit HostLimit, began time.Time) {
	if !limit.Adaptive {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.adapted[host]
	if a == nil {
		if c.adapted == nil {
			c.adapted = make(map[string]*adapted)
		}
		a = &adapted{ceiling: float64(limit.Most)}
		c.adapted[host] = a
	} else if !began.After(a.since) {
		return
	}
	a.ceiling = max(1, cut*min(a.ceiling, float64(c.hosts[host])))
	a.since = time.Now()
}

// Answered notes that a host answered a call that has not left yet. A ceiling that is
// at least half in use rises: else its answers do not show that the host bears more.
func (c *Calls) Answered(host string, limit HostLimit) {
	if !limit.Adaptive {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.adapted[host]
	if a == nil || 2*float64(c.hosts[host]) < a.ceiling {
		return
	}
	if a.ceiling += 1 / a.ceiling; a.ceiling >= float64(limit.Most) {
		delete(c.adapted, host)
	}
}
