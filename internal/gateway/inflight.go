package gateway

import (
	"time"

	"github.com/cadenza-gateway/cadenza/internal/inflight"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// hostOf returns the host that the calls of a workspace's provider count for. A
// provider that does not name its host is a host of its own.
func hostOf(workspace, name string, provider providers.Provider) string {
	if host, said := providers.Host(provider); said {
		return host
	}
	return workspace + "/" + name
}

// retryInFlight is the least Retry-After of a call that a ceiling refused. It is a guess:
// the time until one of the calls in flight ends is unknown.
const retryInFlight = time.Second

// enter admits a call of an endpoint until the call is released, or refuses it
// before anything is recorded and any provider asked. The host of one of targets at
// least must have a place for it; targets is nil if the answer may come from another call.
func (c *call) enter(targets []invoke.Target) *wire.Error {
	limits := &c.workspace.InFlight
	if ceiling := c.gateway.process.full(targets, c.atHost()); ceiling != inflight.None {
		return c.workspace.refuse(ceiling, c.info)
	}
	ceiling := c.gateway.process.calls.Enter(c.workspace.Name, inflight.Key(c.key.digest), limits)
	if ceiling != inflight.None {
		return c.workspace.refuse(ceiling, c.info)
	}
	c.entered = true
	c.workspace.calls.inFlight.Inc()
	return nil
}

// atHost is the ceiling of the call at hosts.
func (c *call) atHost() inflight.HostLimit {
	return c.workspace.InFlight.AtHost(c.workspace.Name, inflight.Key(c.key.digest))
}

// leave ends a call that was admitted.
func (c *call) leave() {
	if c.entered {
		c.gateway.process.calls.Leave(c.workspace.Name, inflight.Key(c.key.digest))
		c.entered = false
		c.workspace.calls.inFlight.Dec()
	}
}

// full returns the ceiling that refuses the call where there are targets that can be
// called and the hosts of all of them have no place for it; else None.
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
