package inflight

import "time"

// HostLimit is the ceiling of calls at a host.
type HostLimit struct {
	Max int
	// Adaptive lowers the ceiling below Max while the host is overloaded. The ceiling
	// is the workspace's own then, and counts the workspace's calls. Key is the caller's.
	Adaptive  bool
	Workspace string
	Key       Key
}

// Outcome is how one try at a host went.
type Outcome struct {
	// Overloaded reports that the host limited the rate, failed, could not be
	// reached or did not answer in time.
	Overloaded bool
	// Began is the start of the try. Model is the model that was asked, and Waited
	// the time until its first content; waits are compared between tries of one
	// model.
	Began  time.Time
	Model  string
	Waited time.Duration
}

const (
	// A window of outcomes is judged once it is so old and has so many of them. One that
	// does not come to as many in staleAfter says nothing.
	minWindow   = time.Second
	staleAfter  = 30 * time.Second
	minOutcomes = 10

	// cut is the factor by which an overload reduces the number of calls in flight, and
	// steepest the least factor for the ceiling. lowest is the part of HostLimit.Max
	// that the ceiling never falls below.
	cut      = 0.7
	steepest = 0.5
	lowest   = 0.1
	// bearable is the share of tries that may fail in a window.
	bearable = 0.1
	// slower is the multiple of the usual wait for a first content at which a host
	// counts as overloaded. settles is the weight of a window in the usual wait.
	slower  = 1.5
	settles = 0.02
	// grows is by how much a window raises a ceiling that was borne, beyond the one that
	// was not borne last.
	grows = 0.02

	// maxWatched bounds the keys of a window, and the models of a host.
	maxWatched = 64
)

// at is a host as a workspace sees it.
type at struct{ workspace, host string }

// watched is a host whose ceiling follows the outcomes of its calls: multiplicative
// decrease and, near the last overload, additive increase (AIMD: Chiu and Jain, 1989,
// https://doi.org/10.1016/0169-7552(89)90019-6). Growing waits are a sign like failures,
// as in TCP Vegas (Brakmo and Peterson, 1995, https://doi.org/10.1109/49.464716). The
// verdict is by window and by callers: more than half of the API keys in it must have
// found the host overloaded, so that a key with slow prompts closes it only for itself. A
// key with few of the calls does not outvote an overload: it keeps its share of a lower
// ceiling.
//
// Example: a host with a ceiling of 200 bears 40 calls and answers 503 beyond. Windows of
// a second, with all 200 in use: 200 → 140 → 98 → 69 → 48 → 34. The host bears that, so
// the ceiling rises as fast as it fell, up to 85 % of the last ceiling that was too high:
// 34 → 41, and then by one a window until it is 42, with a tenth of failures again: → 29.
type watched struct {
	ceiling float64
	knee    float64 // up to which the ceiling rises as fast as it fell
	fell    bool    // by the last window
	since   time.Time
	usual   map[string]float64 // wait in seconds for a first content, by model

	window struct {
		began    time.Time
		peak     int // of calls in flight
		outcomes int
		keys     map[Key]*tally
	}
}

// tally holds the outcomes of one API key in a window.
type tally struct {
	tries, failed int
	waits         map[string]*mean // by model
}

type mean struct {
	sum float64
	n   int
}

// ceiling returns how many calls a workspace may have at a host. It holds c.mu.
func (c *Calls) ceiling(host string, limit *HostLimit) int {
	if limit.Adaptive {
		if w := c.watched[at{limit.Workspace, host}]; w != nil {
			return max(1, min(int(w.ceiling), limit.Max))
		}
	}
	return limit.Max
}

// HostCeiling returns how many calls a workspace may have at a host at present.
func (c *Calls) HostCeiling(host string, limit HostLimit) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ceiling(host, &limit)
}

// HostShared returns how many calls the keys share at a host that can't serve all of
// them, or 0 if they do not share.
func (c *Calls) HostShared(host string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int(named(&c.hosts, host).strain.places)
}

// Report adjusts an adaptive ceiling, and the sharing of an overloaded host, to the
// outcome of a try at the host by a call that has not left yet. A try that began before
// the ceiling last fell changes nothing: it says nothing about the new ceiling.
func (c *Calls) Report(host string, limit HostLimit, o Outcome) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	h := named(&c.hosts, host)
	h.report(&h.places, limit.Key, &o, now)
	if !limit.Adaptive {
		return
	}
	name := at{limit.Workspace, host}
	w := c.watched[name]
	if w == nil {
		if c.watched == nil {
			c.watched = make(map[at]*watched)
		}
		w = &watched{ceiling: float64(limit.Max), knee: float64(limit.Max), usual: make(map[string]float64)}
		c.watched[name] = w
	}
	if !o.Began.After(w.since) {
		return
	}
	if w.window.keys == nil || now.Sub(w.window.began) > staleAfter {
		w.begin(now)
	}
	w.window.peak = max(w.window.peak, named(&c.own, name).calls)
	w.note(limit.Key, &o)
	if w.window.outcomes >= minOutcomes && now.Sub(w.window.began) >= minWindow {
		w.judge(named(&c.own, name), float64(limit.Max), now)
		w.begin(now)
	}
}

func (w *watched) begin(now time.Time) {
	w.window.began, w.window.peak, w.window.outcomes, w.window.keys = now, 0, 0, make(map[Key]*tally)
}

func (w *watched) note(key Key, o *Outcome) {
	t := w.window.keys[key]
	if t == nil {
		if len(w.window.keys) == maxWatched {
			return
		}
		t = &tally{waits: make(map[string]*mean)}
		w.window.keys[key] = t
	}
	w.window.outcomes++
	t.tries++
	if o.Overloaded {
		t.failed++
		return
	}
	m := t.waits[o.Model]
	if m == nil {
		if len(t.waits) == maxWatched {
			return
		}
		m = new(mean)
		t.waits[o.Model] = m
	}
	m.sum += o.Waited.Seconds()
	m.n++
}

// judge changes the ceiling by the outcomes of the window.
func (w *watched) judge(calls *places, limit float64, now time.Time) {
	votes, overloaded := 0, 0
	models := make(map[string]mean)
	for key, t := range w.window.keys {
		switch {
		case w.finds(t):
			votes++
			overloaded++
		case !calls.light(key):
			votes++
		}
		for model, m := range t.waits {
			all := models[model]
			models[model] = mean{all.sum + m.sum, all.n + m.n}
		}
	}
	w.learn(models)
	peak := float64(w.window.peak)
	w.ceiling = min(w.ceiling, limit)
	if 2*overloaded > votes {
		if !w.fell && 2*peak >= w.ceiling { // fewer calls don't show how many are too many
			w.knee = 0.85 * min(w.ceiling, peak)
		}
		w.ceiling = max(cut*min(w.ceiling, peak), steepest*w.ceiling, lowest*limit)
		w.fell, w.since = true, now
		return
	}
	w.fell = false
	if 2*peak < w.ceiling {
		return // answers to few calls do not show that the host bears more
	}
	w.ceiling = min(limit, max(w.ceiling+max(1, grows*w.ceiling), min(w.ceiling/cut, w.knee)))
}

// finds reports whether an API key found the host overloaded.
func (w *watched) finds(t *tally) bool {
	if float64(t.failed) > bearable*float64(t.tries) {
		return true
	}
	for model, m := range t.waits {
		if usual := w.usual[model]; m.n >= minOutcomes && usual > 0 && m.sum/float64(m.n) > slower*usual {
			return true
		}
	}
	return false
}

// learn moves the usual waits towards the window's: down at once, up slowly, so that a
// model that stays slower does not count as overloaded forever.
func (w *watched) learn(models map[string]mean) {
	for model, m := range models {
		if m.n < minOutcomes {
			continue
		}
		wait, usual := m.sum/float64(m.n), w.usual[model]
		switch {
		case usual == 0 && len(w.usual) == maxWatched:
		case usual == 0 || wait < usual:
			w.usual[model] = wait
		default:
			w.usual[model] = min(wait, usual*(1+settles))
		}
	}
}
