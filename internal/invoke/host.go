package invoke

import "github.com/cadenza-gateway/cadenza/internal/inflight"

// A target takes a place at its host before it is tried. It keeps the place
// through all retries and the waits before them, until the next target is tried or
// the call ends. A hedge takes a place of its own.

// enterHost takes a place at the target's host. It holds k.mu, as the functions
// below do.
func (k *call) enterHost(u *usable) bool {
	if k.host(u) == "" {
		return true
	}
	u.held = k.InFlight.EnterHost(k.host(u), k.HostLimit)
	return u.held
}

// leaveHost gives the place back, if the target has one.
func (k *call) leaveHost(u *usable) {
	if u.held {
		u.held = false
		k.InFlight.LeaveHost(k.host(u), k.HostLimit)
	}
}

// hostFull reports whether there is no place for the target at present.
func (k *call) hostFull(u *usable) bool {
	return k.host(u) != "" && k.InFlight.HostRefuses(k.host(u), k.HostLimit) != inflight.None
}

func (k *call) host(u *usable) string { return k.Targets[u.index].Host }

// permitRetry reports whether a failed try may be repeated. It may not if the key has its
// share of an overloaded host: the retries would take the places of other keys.
func (a *attempt) permitRetry(last bool) bool {
	full, light := false, false
	if a.target.Host != "" {
		full, light = a.InFlight.Standing(a.target.Host, a.HostLimit)
	}
	return !full && a.health.permitRetry(last, light)
}

// reportToHost adjusts the ceiling of the attempt's host to the outcome of the attempt.
func (a *attempt) reportToHost(class Class) {
	if a.target.Host == "" {
		return
	}
	o := inflight.Outcome{Began: a.tryAt, Model: a.target.Model}
	switch class {
	case "":
		if o.Waited = a.waited; !a.Stream && a.HostLimit.Adaptive {
			o.Model += " whole" // a whole answer takes longer
		}
	case RateLimit, Transient, Slow, Connect:
		o.Overloaded = true
	default:
		return
	}
	a.InFlight.Report(a.target.Host, a.HostLimit, o)
}
