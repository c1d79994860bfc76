package inflight

import "time"

// places are the calls below one ceiling: of the process, of a workspace, or of a host. Any
// key may use all of them until another that has less than its share is refused. From then
// on the keys share them: a key that has its share gets none of the last sixteenth, which
// is for the keys that have less. A share is max-min fair
// (https://en.wikipedia.org/wiki/Max-min_fairness): the others get the places that a key
// does not use.
//
// Example: of 80 places key A has 80 when B asks, and is refused. As A's calls end A gets
// no new one while it has more than 75, less B's number, so B's next call is admitted. With
// calls enough A has 38 and B 37; if B wants 10 at most, A has 65. Ten seconds after A has
// last been held back for another key's calls, A may have all again.
type places struct {
	calls   int
	keys    map[Key]int
	pressed time.Time // when they were last needed by a key that had less than its share
}

// sharedFor is how long places are shared after the last need of it.
const sharedFor = 10 * time.Second

func (p *places) enter(key Key) {
	p.calls++
	if p.keys == nil {
		p.keys = make(map[Key]int)
	}
	p.keys[key]++
}

func (p *places) leave(key Key) {
	p.calls--
	if p.keys[key]--; p.keys[key] == 0 {
		delete(p.keys, key)
	}
}

// refuses returns None if a call of the key gets one of limit places, OfShare if the key
// has its share of them, and full if all are taken.
func (p *places) refuses(key Key, limit int, full Ceiling) Ceiling {
	spare := limit - max(1, limit/16)
	switch {
	case p.calls >= limit:
		if p.fair(key, limit, nil) {
			p.pressed = time.Now()
		}
		return full
	case p.calls < spare || p.pressed.IsZero() || p.fair(key, spare, nil):
		return None
	}
	now := time.Now()
	if now.Sub(p.pressed) >= sharedFor {
		p.pressed = time.Time{}
		return None
	}
	if len(p.keys) > 1 {
		p.pressed = now
	}
	return OfShare
}

// fair reports whether one more call of the key is within its share of limit places: all
// keys of among, nil for any, fit in them if none has more than this one then. A key
// without a call may always have one.
func (p *places) fair(key Key, limit int, among map[Key]bool) bool {
	own := p.keys[key] + 1
	if own == 1 {
		return true
	}
	left := limit - 1
	for k, n := range p.keys {
		if among == nil || among[k] {
			if left -= min(n, own); left < 0 {
				return false
			}
		}
	}
	return true
}

// light reports whether a key has less than half of an equal part of the calls.
func (p *places) light(key Key) bool {
	return len(p.keys) > 1 && 2*p.keys[key]*len(p.keys) < p.calls
}

const (
	// starving is the part of a strained key's tries that fail.
	starving = 0.5
	// headroom is the part of the calls that a host bears which the keys get at first.
	headroom = 0.9
	// drained is how many calls, of the places, are so few that the places show.
	drained = 1.25
	// lasting is the factor by which a window reduces the seconds that answers took before
	// it, which are dropped below forgotten.
	lasting   = 0.95
	forgotten = 0.01
)

// strain makes the keys share a host that can't serve all their calls, whatever its
// ceiling is. If it answers some tries, and more than half of the tries of two keys or
// more fail, these keys share as many places as the host bears, by its answers. Their
// number falls while over a tenth still fails, by half at most, and rises while a key is
// refused. The sharing ends once no key is refused for it, or only one key is left, and
// for 30 s if most tries still fail. So a key that is answered, or one that is alone, is
// never held back, and an outage holds no key back.
//
// The capacity of a host is the time that its answers took in a second (Little's law,
// https://doi.org/10.1287/opre.9.3.383).
//
// Example: 200 callers of one key and four of another ask a host that answers 503 beyond
// 80 calls of 1.6 s, which is 50 a second. 50 × 1.6 = 80, so the two share 72 places, and
// each of the four gets a place whenever it asks.
type strain struct {
	places   float64 // 0: not shared
	least    float64 // that they fall to
	strained map[Key]bool
	refused  bool      // a key, in this window
	since    time.Time // tries that began before don't count
	began    time.Time // of the window
	outcomes int
	failed   int
	keys     map[Key]found
	seconds  float64 // that found.busy is of
}

// found holds the outcomes of a key in a window.
type found struct {
	tries, failed int
	busy          float64 // seconds that its answers took, decayed by window
}

// refuses reports whether a key has its share of the places of a host already.
func (s *strain) refuses(h *places, key Key) bool {
	if s.places == 0 || !s.strained[key] || h.fair(key, int(s.places), s.strained) {
		return false
	}
	s.refused = true
	return true
}

// report counts a try of a key.
func (s *strain) report(h *places, key Key, o *Outcome, now time.Time) {
	if s.keys == nil || now.Sub(s.began) > staleAfter {
		s.places, s.seconds, s.keys = 0, 0, make(map[Key]found)
		s.begin(now)
	}
	f := s.keys[key]
	if !o.Overloaded {
		f.busy += now.Sub(o.Began).Seconds()
	}
	if o.Began.After(s.since) {
		s.outcomes++
		f.tries++
		if o.Overloaded {
			s.failed++
			f.failed++
		}
	}
	s.keys[key] = f
	window := minWindow
	if s.places > s.least && 2*s.failed > s.outcomes {
		window /= 4 // there are too many places: each caller suffers until they are fewer
	}
	if s.outcomes >= minOutcomes && now.Sub(s.began) >= window {
		s.seconds += now.Sub(s.began).Seconds()
		s.judge(h, now)
		s.begin(now)
	}
}

func (s *strain) begin(now time.Time) {
	s.began, s.outcomes, s.failed, s.refused = now, 0, 0, false
	s.seconds *= lasting
	for key, f := range s.keys {
		if f.tries == 0 && f.busy < forgotten {
			delete(s.keys, key)
		} else {
			s.keys[key] = found{busy: lasting * f.busy}
		}
	}
}

// judge changes the places by the outcomes of a window.
func (s *strain) judge(h *places, now time.Time) {
	if s.places == 0 {
		s.strained = make(map[Key]bool)
	}
	for key, f := range s.keys {
		if float64(f.failed) > starving*float64(f.tries) {
			s.strained[key] = true
		}
	}
	var all found // of the keys that are strained
	active, calls := 0, 0
	for key := range s.strained {
		f, n := s.keys[key], h.keys[key]
		if f.tries > 0 || n > 0 {
			active++
		}
		calls += n
		all = found{all.tries + f.tries, all.failed + f.failed, all.busy + f.busy}
	}
	bears := all.busy / s.seconds
	switch failed := float64(all.failed) / float64(max(1, all.tries)); {
	case active < 2:
		s.places = 0
	case s.places == 0:
		if bears > 0 {
			s.places = max(1, headroom*min(bears, float64(calls)))
			s.least, s.since = max(1, s.places/2), now
		}
	case float64(calls) > drained*s.places+float64(active):
		s.since = now // earlier calls don't count for the new places
	case failed > starving && s.places == s.least:
		s.places, s.since = 0, now.Add(staleAfter)
	case failed > bearable:
		s.places, s.since = max(s.least, cut*s.places), now
	case !s.refused:
		s.places = 0
	default:
		s.places += max(1, grows*s.places)
	}
}
