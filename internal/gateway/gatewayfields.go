package gateway

import (
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/rules"
)

// An evaluation answers the gateway's fields for tables. It uses the request's subject for
// budgets.
var _ rules.Gateway = (*evaluation)(nil)

// Budget returns the share of a limit, in percent, that the request's subject had used
// when the request arrived. If the request is a call that uses tokens or money of the
// limit, the share includes what the call itself would set aside. The share is unknown
// if the request has no subject or no limit has the name, and while asked.plan weighs
// the call.
func (e *evaluation) Budget(name string) (percent int, ok bool) {
	i := slices.IndexFunc(e.workspace.CallLimits, func(l *limit.Limit) bool { return l.Name == name })
	limiter := e.workspace.Store.Limiter()
	if i < 0 || limiter == nil {
		return 0, false
	}
	l := e.workspace.CallLimits[i]
	subject := e.subject(l, e.asked)
	if subject == "" && l.By != limit.ByWorkspace {
		return 0, false
	}
	if e.weighing && metered(l) && e.meter.counts(l) {
		e.asksBudget = true
		return 0, false
	}
	return e.shareBefore(limiter, limit.Ask{Limit: l, Subject: subject}), true
}

// Down reports whether calls skip all targets of a provider, or of one of its models,
// that the served definitions name: because the targets are left alone, or the provider
// is not available. The result is unknown if the definitions name no such target. When
// the time has come to try a target again, it is not down: otherwise tables that avoid it
// would never let a call try it.
func (e *evaluation) Down(provider, model string) (down, ok bool) {
	named := e.workspace.callTargets(e.workspace.Source.Snapshot()).named
	first, _ := slices.BinarySearchFunc(named, provider, func(t servedTarget, provider string) int { return strings.Compare(t.Provider, provider) })
	for i := first; i < len(named) && named[i].Provider == provider; i++ {
		if model != "" && named[i].Model != model {
			continue
		}
		if !ok {
			if p := e.workspace.Providers[provider]; p == nil || providers.Availability(p) != nil {
				return true, true
			}
		}
		if ok = true; e.workspace.Memory.engine.Admits(provider, named[i].Model) {
			return false, true
		}
	}
	return ok, ok
}

// Rollout returns how many of the 100,000 buckets a rollout's new answer has, and the number
// of the row that says so.
func (e *evaluation) Rollout(name string) (share int, row int64, ok bool) {
	return e.workspace.rollouts.answer(e.snapshot, name)
}
