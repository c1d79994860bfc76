package inflight

import "time"

// HostLimit is the ceiling of calls at a host.
type HostLimit struct {
	Most int
	// Adaptive has the ceiling fall below Most while the host is overloaded. It is the
	// workspace's own then, and counts the workspace's calls. Key is the caller's.
	Adaptive  bool
	Workspace string
	Key       Key
}

// Outcome is how one try at a host went.
type Outcome struct {
	// Overloaded says that the host did not bear the try: it limited the rate, failed,
	// could not be reached or did not answer in time.
	Overloaded bool
	// Began is when the try began. Model is what was asked, and Waited the time until
	// its first content; they are of tries that are comparable.
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

	// cut is what an overload leaves of the calls that were in flight, and steepest what
	// it leaves of the ceiling at least. lowest is the part of HostLimit.Most that the
	// ceiling never falls below.
	cut      = 0.7
	steepest = 0.5
	lowest   = 0.1
	// bearable is the share of tries that may fail in a window.
	bearable = 0.1
	// slower is how many times the usual wait for a first content shows that a host is
	// overloaded, and settles by how much a window moves what is usual.
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

// watched is a host whose ceiling follows how its calls go: multiplicative decrease and,
// near the last overload, additive increase (Chiu and Jain, 1989), with waits that grow as
// a sign beside failures, as TCP Vegas has it (Brakmo and Peterson, 1995). What is judged
// is a window, by callers: more than half of the API keys in it must have found the host
// overloaded, so that one whose prompts are slow closes it for nobody else.
//
// Example: a host with a ceiling of 200 bears 40 calls and answers 503 beyond. Windows of
// a second, with all 200 in use: 200 → 140 → 98 → 69 → 48 → 34. That is borne, so the
// ceiling rises as fast as it fell, up to 85 % of what was not borne last: 34 → 41, and
// then by one a window until it is 42, with a tenth of failures again: → 29.
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

// tally is what one API key found in a window.
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
			return max(1, min(int(w.ceiling), limit.Most))
		}
	}
	return limit.Most
}

// HostCeiling returns how many calls a workspace may have at a host at present.
func (c *Calls) HostCeiling(host string, limit HostLimit) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ceiling(host, &limit)
}

// HostShared returns how many calls the keys share at a host that does not bear those of
// all, 0 where they do not.
func (c *Calls) HostShared(host string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int(named(&c.hosts, host).strain.places)
}

// Tell has an adaptive ceiling, and the sharing of an overloaded host, follow how a try at
// the host went, of a call that has not left yet. A try that began before the ceiling fell
// last changes nothing: it says nothing of the new ceiling.
func (c *Calls) Tell(host string, limit HostLimit, o Outcome) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	h := named(&c.hosts, host)
	h.tell(&h.places, limit.Key, &o, now)
	if !limit.Adaptive {
		return
	}
	name := at{limit.Workspace, host}
	w := c.watched[name]
	if w == nil {
		if c.watched == nil {
			c.watched = make(map[at]*watched)
		}
		w = &watched{ceiling: float64(limit.Most), knee: float64(limit.Most), usual: make(map[string]float64)}
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
		w.judge(float64(limit.Most), now)
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

// judge changes the ceiling by what the window has shown.
func (w *watched) judge(most float64, now time.Time) {
	overloaded := 0
	models := make(map[string]mean)
	for _, t := range w.window.keys {
		if w.finds(t) {
			overloaded++
		}
		for model, m := range t.waits {
			all := models[model]
			models[model] = mean{all.sum + m.sum, all.n + m.n}
		}
	}
	w.learn(models)
	peak := float64(w.window.peak)
	w.ceiling = min(w.ceiling, most)
	if 2*overloaded > len(w.window.keys) {
		if !w.fell && 2*peak >= w.ceiling { // fewer calls show nothing of what is too many
			w.knee = 0.85 * min(w.ceiling, peak)
		}
		w.ceiling = max(cut*min(w.ceiling, peak), steepest*w.ceiling, lowest*most)
		w.fell, w.since = true, now
		return
	}
	w.fell = false
	if 2*peak < w.ceiling {
		return // answers to few calls do not show that the host bears more
	}
	w.ceiling = min(most, max(w.ceiling+max(1, grows*w.ceiling), min(w.ceiling/cut, w.knee)))
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

// learn has what is usual follow the windows: down at once, up slowly, so that a model
// that stays slower is not taken for an overload for ever.
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
