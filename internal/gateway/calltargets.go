package gateway

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/visible"
	"github.com/cadenza-gateway/cadenza/providers"
)

// callTargets are the targets of the calls of a snapshot, with what their providers
// have prepared. Each list is made with the first call that needs it: of a large set
// of definitions most calls are few or none.
type callTargets struct {
	snapshot    *definition.Snapshot
	lists       sync.Map // []invoke.Target by wayToCall
	largestBody int64    // that an endpoint accepts, in bytes
	ends        map[string]end
}

// wayToCall is what decides on the targets of a call.
type wayToCall struct {
	how     *definition.Policy
	variant *definition.Variant
}

// targets returns the targets of a call with their providers. The list is shared, and
// must not be changed.
func (w *Workspace) targets(snapshot *definition.Snapshot, how *definition.Policy, variant *definition.Variant) []invoke.Target {
	known := w.callTargets(snapshot)
	way := wayToCall{how, variant}
	if list, ok := known.lists.Load(way); ok {
		return list.([]invoke.Target)
	}
	list, _ := known.lists.LoadOrStore(way, w.makeTargets(how, variant))
	return list.([]invoke.Target)
}

// callTargets returns what the calls of a snapshot share.
func (w *Workspace) callTargets(snapshot *definition.Snapshot) *callTargets {
	known := w.called.Load()
	if known == nil || known.snapshot != snapshot {
		known = &callTargets{snapshot: snapshot, ends: w.endsOf(snapshot)}
		for _, endpoint := range snapshot.Endpoints {
			known.largestBody = max(known.largestBody, endpoint.Accept.BodyLimit(0))
		}
		w.called.Store(known)
	}
	return known
}

func (w *Workspace) makeTargets(how *definition.Policy, variant *definition.Variant) []invoke.Target {
	targets := make([]invoke.Target, 1+len(how.Fallback))
	for i := range targets {
		t := how.Target(variant, i)
		provider := w.Providers[t.Provider]
		targets[i] = invoke.Target{
			Name: t.Provider, Provider: provider, Host: w.hosts[t.Provider], Model: t.Model,
			Parameters: t.Parameters, Extra: t.Extra,
		}
		// A target that can't be prepared fails when it is called, with the same error.
		targets[i].Prepared, _ = prepare(provider, &t)
		targets[i].Bounds = invoke.BoundsOf(&targets[i])
		if how.Weights != nil {
			targets[i].Weight = how.Weights[i]
		}
	}
	return targets
}

func prepare(provider providers.Provider, t *definition.Target) (any, error) {
	return providers.Prepare(provider, &providers.Request{Model: t.Model, Parameters: t.Parameters, Extra: t.Extra})
}

// lack is a target with the reason why its provider can't be asked for what a
// definition wants of it.
type lack struct{ provider, model, reason string }

// checkParameters warns of targets that can't be called as their endpoints want it.
// One goroutine calls it at a time.
func (w *Workspace) checkParameters(snapshot *definition.Snapshot) {
	lacks := make(map[lack][]string) // endpoints
	for _, key := range slices.Sorted(maps.Keys(snapshot.Endpoints)) {
		for t := range snapshot.Endpoints[key].Called() {
			_, err := prepare(w.Providers[t.Provider], &t)
			if err == nil {
				continue
			}
			l := lack{t.Provider, t.Model, err.Error()}
			if e, ok := errors.AsType[*providers.Error](err); ok {
				l.reason = e.Reason
			}
			if !slices.Contains(lacks[l], key) {
				lacks[l] = append(lacks[l], key)
			}
		}
	}
	for l, endpoints := range lacks {
		// An unrelated edit must not repeat the warning.
		if !slices.Equal(w.lacks[l], endpoints) {
			w.Logger.Warn("target lacks a parameter", zap.String("provider", visible.Line(l.provider)), zap.String("model", visible.Line(l.model)),
				zap.Strings("endpoints", endpoints), zap.String("reason", visible.Line(l.reason)))
		}
	}
	w.lacks = lacks
}
