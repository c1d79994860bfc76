package gateway

import (
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/rules"
)

// A call is what tables ask for the gateway's fields: the subject of a budget is that of
// the request.
var _ rules.Gateway = (*call)(nil)

// Budget returns the share of a limit that the request's subject has used when the
// request came, in percent, and of a call that uses tokens or money of it, with what the
// call itself would set aside. It is not known for a request that has no subject, where
// no limit has the name, and for a call while that is weighed: see plan.
func (c *call) Budget(name string) (percent int, ok bool) {
	i := slices.IndexFunc(c.workspace.CallLimits, func(l *limit.Limit) bool { return l.Name == name })
	limiter := c.workspace.Store.Limiter()
	if i < 0 || limiter == nil {
		return 0, false
	}
	l := c.workspace.CallLimits[i]
	subject := c.subject(l, c.asked)
	if subject == "" && l.By != limit.ByWorkspace {
		return 0, false
	}
	if c.weighing && metered(l) && c.meter.counts(l) {
		c.asksBudget = true
		return 0, false
	}
	return c.shareBefore(limiter, limit.Ask{Limit: l, Subject: subject}), true
}

// Down reports whether calls pass all targets over that the served definitions name of
// a provider, or one of its models: they are left alone, or the provider is not
// available. It is not known where they name none. A target that is left alone until a
// call shows that it answers is not down for that call: tables that turn to others
// would else never ask it again.
func (c *call) Down(provider, model string) (down, ok bool) {
	named := c.workspace.namedTargets(c.workspace.Source.Snapshot())
	first, _ := slices.BinarySearchFunc(named, provider, func(t servedTarget, provider string) int { return strings.Compare(t.Provider, provider) })
	for i := first; i < len(named) && named[i].Provider == provider; i++ {
		if model != "" && named[i].Model != model {
			continue
		}
		if !ok {
			if p := c.workspace.Providers[provider]; p == nil || providers.Availability(p) != nil {
				return true, true
			}
		}
		if ok = true; c.workspace.Memory.engine.Lets(provider, named[i].Model) {
			return false, true
		}
	}
	return ok, ok
}
