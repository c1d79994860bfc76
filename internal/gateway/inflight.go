package gateway

import (
	"time"

	"github.com/cadenza-gateway/cadenza/internal/inflight"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// hostOf returns the host under which the calls of a workspace's provider are counted. A
// provider that does not name its host counts alone, under WORKSPACE/NAME.
func hostOf(workspace, name string, provider providers.Provider) string {
	if host, named := providers.Host(provider); named {
		return host
	}
	return workspace + "/" + name
}

// retryInFlight is the shortest Retry-After of a call that a ceiling refused. It is a
// guess: nobody knows when one of the calls in flight ends.
const retryInFlight = time.Second

// enterInFlight admits a call of an endpoint until the call is released, or refuses it
// before it is recorded and before a provider is called. At least one host of targets
// must have a free place. targets is nil if the answer may come from another call.
func (h *holdings) enterInFlight(targets []invoke.Target) *wire.Error {
	limits := &h.workspace.InFlight
	if ceiling := h.gateway.process.full(targets, h.atHost()); ceiling != inflight.None {
		return h.workspace.refuse(ceiling)
	}
	ceiling := h.gateway.process.calls.Enter(h.workspace.Name, inflight.Key(h.key.digest), limits)
	if ceiling != inflight.None {
		return h.workspace.refuse(ceiling)
	}
	h.entered = true
	h.workspace.calls.inFlight.Inc()
	return nil
}

// atHost returns the call's ceiling at each host.
func (in *incoming) atHost() inflight.HostLimit {
	return in.workspace.InFlight.AtHost(in.workspace.Name, inflight.Key(in.key.digest))
}

// leave ends a call that was admitted.
func (h *holdings) leave() {
	if h.entered {
		h.gateway.process.calls.Leave(h.workspace.Name, inflight.Key(h.key.digest))
		h.entered = false
		h.workspace.calls.inFlight.Dec()
	}
}

// full returns the ceiling that refuses the call if the hosts of all available targets
// are full, otherwise None.
func (p *Process) full(targets []invoke.Target, limit inflight.HostLimit) inflight.Ceiling {
	ceiling := inflight.None
	for i := range targets {
		t := &targets[i]
		if t.Provider == nil || providers.Availability(t.Provider) != nil {
			continue
		}
		if t.Host == "" {
			return inflight.None
		}
		refuses := p.calls.HostRefuses(t.Host, limit)
		if refuses == inflight.None {
			return inflight.None
		}
		ceiling = max(ceiling, refuses)
	}
	return ceiling
}
