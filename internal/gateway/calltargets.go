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

// callTargets are the targets of the calls of a snapshot, prepared by their providers. The
// first call that needs a list makes it: in a large set of definitions, most endpoints are
// called rarely or never.
type callTargets struct {
	snapshot    *definition.Snapshot
	named       []servedTarget // that the endpoints name, by provider and model
	lists       sync.Map       // []invoke.Target by wayToCall
	largestBody int64          // the largest body that an endpoint accepts, in bytes
	ends        map[string]end
}

// wayToCall decides the targets of a call.
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
		named := targetsOf(snapshot)
		for i := range named {
			t := &named[i]
			t.model = w.prices.Model(t.Provider, w.hosts[t.Provider], t.Model)
		}
		known = &callTargets{snapshot: snapshot, named: named, ends: endsOf(named)}
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
			Window: w.prices.Model(t.Provider, w.hosts[t.Provider], t.Model).ContextWindow,
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

// lack is a target, and the reason why it can't do what a definition wants.
type lack struct{ provider, model, reason string }

// checkParameters warns of targets whose providers lack a parameter that the definitions
// set. One goroutine calls it at a time.
func (w *Workspace) checkParameters(snapshot *definition.Snapshot) {
	lacks := make(map[lack][]string) // endpoints
	for _, key := range slices.Sorted(maps.Keys(snapshot.Endpoints)) {
		for t := range snapshot.Endpoints[key].Called() {
			err := checkEmbedder(snapshot.Endpoints[key], w.Providers[t.Provider])
			if snapshot.Endpoints[key].Embedding == nil {
				_, err = prepare(w.Providers[t.Provider], &t)
			}
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
	w.warnOfLacks("target lacks a parameter", w.lacks, lacks)
	w.lacks = lacks
}

// warnOfLacks logs each lack unless it was found for the same endpoints before: an
// unrelated edit must not repeat the warning.
func (w *Workspace) warnOfLacks(message string, before, found map[lack][]string) {
	for l, endpoints := range found {
		if !slices.Equal(before[l], endpoints) {
			w.Logger.Warn(message, zap.String("provider", visible.Line(l.provider)), zap.String("model", visible.Line(l.model)),
				zap.Strings("endpoints", endpoints), zap.String("reason", visible.Line(l.reason)))
		}
	}
}
