package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/price"
	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/providers"
)

// The codes of conditions. Each has a section of docs/runbook.md by its name.
const (
	// DefinitionsInvalid: the gateway serves older definitions than the directory has.
	DefinitionsInvalid = "definitions_invalid"
	// DefinitionsRestored: the gateway started from the last good definitions that
	// the store holds.
	DefinitionsRestored = "definitions_restored"
	// DefinitionsAwaited: the source of bundles has given no definitions yet, and requests
	// are refused.
	DefinitionsAwaited = "definitions_awaited"
	// DefinitionsStale: the source of bundles has not confirmed the definitions for longer
	// than max_age.
	DefinitionsStale = "definitions_stale"
	// DefinitionsUnsaved: the file of the last good bundle can't be read or written.
	DefinitionsUnsaved = "definitions_unsaved"
	// SourceFailing: the source of bundles gives no answer, or none of use.
	SourceFailing = "source_failing"
	// KeysInvalid: the keys file, or an entry of it, can't be used.
	KeysInvalid = "keys_invalid"
	// SecretStale: a provider's key file can't be used, and its last key stays.
	SecretStale = "secret_stale"
	// StoreDown: the store can't be opened or written.
	StoreDown = "store_down"
	// LimitsUnsaved: the file of the limits' counters can't be opened or written.
	LimitsUnsaved = "limits_unsaved"
	// LimitsUnshared: the database that limits are shared by is away.
	LimitsUnshared = "limits_unshared"
	// RolloutStopped: a guard stopped a rollout, which waits for a person.
	RolloutStopped = "rollout_stopped"
	// RolloutUnshared: the rows of rollouts can't be shared with other gateways.
	RolloutUnshared = "rollout_unshared"
	// SinkFailing: a sink refuses its deliveries.
	SinkFailing = "sink_failing"
	// ProviderUnavailable: definitions name a provider that can't be called.
	ProviderUnavailable = "provider_unavailable"
	// TargetDown: a target is left alone after its failures, or failed many times in
	// a row.
	TargetDown = "target_down"
)

// conditionCodes lists all codes.
var conditionCodes = []string{
	DefinitionsInvalid, DefinitionsRestored, DefinitionsAwaited, DefinitionsStale, DefinitionsUnsaved, SourceFailing, KeysInvalid, SecretStale, StoreDown, LimitsUnsaved, LimitsUnshared, RolloutStopped, RolloutUnshared, SinkFailing, ProviderUnavailable, TargetDown,
}

// Condition is a reason why a workspace is degraded: it answers, but not in every way
// that it is configured for.
type Condition struct {
	Code string `json:"code"`
	// Subject is the name of the affected provider, sink or rollout, a target as
	// PROVIDER/MODEL, or "definitions", "keys", "store", "limits" or "rollouts".
	Subject string    `json:"subject"`
	Since   time.Time `json:"since"`
	// Message is for the operator alone: it may have paths and errors of others.
	Message string `json:"message"`
}

// slowOpening is how long the store may take to open before that is a condition.
const slowOpening = 10 * time.Second

// longAway is how long the limits' database may be unreachable before that is a condition.
const longAway = time.Minute

// Conditions returns the present conditions, in the order of the codes.
func (w *Workspace) Conditions() []Condition {
	var list []Condition
	definitions := w.Source.State()
	if err := definitions.Err; err != nil {
		list = append(list, Condition{DefinitionsInvalid, "definitions", definitions.Since, firstMistake(err)})
	}
	if !definitions.Restored.IsZero() {
		list = append(list, Condition{DefinitionsRestored, "definitions", definitions.Since,
			"the gateway started from the definitions that were served since " + definitions.Restored.UTC().Format(time.RFC3339)})
	}
	list = append(list, w.bundleConditions()...)
	if c := w.Memory.badKeys.Load(); c != nil {
		list = append(list, *c)
	}
	for _, name := range slices.Sorted(maps.Keys(w.Providers)) {
		if since, err := providers.Stale(w.Providers[name]); err != nil {
			list = append(list, Condition{SecretStale, name, since, err.Error()})
		}
	}
	if stats := w.Store.Recorder.Stats(); isDown(&stats) {
		list = append(list, Condition{StoreDown, "store", stats.Since, cmp.Or(stats.LastError, "the store is still being opened")})
	}
	if since, err := w.Store.limitsFailure(); err != nil && len(w.CallLimits) > 0 {
		list = append(list, Condition{LimitsUnsaved, "limits", since, err.Error()})
	}
	if limiter := w.Store.Limiter(); limiter != nil && len(w.CallLimits) > 0 {
		if since, err := unshared(limiter, w.Name); err != nil {
			list = append(list, Condition{LimitsUnshared, "limits", since, err.Error()})
		}
	}
	list = append(list, w.rollouts.conditions()...)
	for i := range w.Sinks {
		if drain := w.Sinks[i].drain; drain != nil {
			if stats := drain.Stats(); !stats.DownSince.IsZero() {
				list = append(list, Condition{SinkFailing, w.Sinks[i].Name, stats.DownSince, stats.LastError})
			}
		}
	}
	list = append(list, w.unavailable()...)
	for _, t := range w.Targets() {
		if t.Down {
			list = append(list, Condition{TargetDown, t.Target, t.Since, t.Reason})
		}
	}
	for i := range list {
		list[i].Since = list[i].Since.UTC()
	}
	if len(list) > 0 {
		w.gateway.process.okSince.Store(new(time.Now()))
	}
	return list
}

// unshared returns why gateways can't share the limits of a workspace, and since when. The
// error is nil for the first minute.
func unshared(l *limit.Limiter, workspace string) (since time.Time, err error) {
	if _, since, err = l.Shared(workspace); err != nil && time.Since(since) > longAway {
		return since, err
	}
	return time.Time{}, nil
}

// isDown reports whether a recorder can't store anything. A recorder that opens its store
// for the first time counts as down only after slowOpening.
func isDown(stats *recorder.Stats) bool {
	switch {
	case stats.Availability == recorder.Available || stats.Since.IsZero():
		return false
	case stats.LastError != "":
		return true
	}
	return time.Since(stats.Since) > slowOpening
}

// firstMistake returns the first line of an error, with the number of the other
// mistakes.
func firstMistake(err error) string {
	list, ok := errors.AsType[*document.MultiError](err)
	if !ok || len(list.List) == 0 {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return first
	}
	if more := len(list.List) - 1; more > 0 {
		return fmt.Sprintf("%v (and %d more)", list.List[0], more)
	}
	return list.List[0].Error()
}

// unavailable returns a condition for each provider that the served endpoints name and
// that can't be called. The condition begins with the first call of unavailable that
// finds it; the gateway calls unavailable at its start and after each load of definitions.
func (w *Workspace) unavailable() []Condition {
	found := make(map[string]string)
	for _, t := range w.callTargets(w.Source.Snapshot()).named {
		if problem := w.problemOf(t.Provider); problem != "" {
			found[t.Provider] = problem
		}
	}
	m := w.Memory
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.unavailable, func(provider string, _ time.Time) bool { return found[provider] == "" })
	var list []Condition
	for _, provider := range slices.Sorted(maps.Keys(found)) {
		since, known := m.unavailable[provider]
		if !known {
			since = time.Now()
			m.unavailable[provider] = since
		}
		list = append(list, Condition{ProviderUnavailable, provider, since, found[provider]})
	}
	return list
}

// problemOf returns why a provider can't be called, or the empty string.
func (w *Workspace) problemOf(provider string) string {
	p, configured := w.Providers[provider]
	if !configured {
		return "the provider is not configured: add it to the cadenza block, or mend its name in the definitions"
	}
	if err := providers.Availability(p); err != nil {
		return err.Error()
	}
	return ""
}

// servedTarget is a target that endpoints of the served definitions name.
type servedTarget struct {
	Provider, Model string
	Endpoints       []string    // their keys
	model           price.Model // what the prices know of it; targetsOf leaves it empty
}

// targetsOf returns the targets of a snapshot, by provider and model.
func targetsOf(snapshot *definition.Snapshot) []servedTarget {
	endpoints := make(map[[2]string][]string)
	for _, key := range slices.Sorted(maps.Keys(snapshot.Endpoints)) {
		for t := range snapshot.Endpoints[key].Named() {
			name := [2]string{t.Provider, t.Model}
			if !slices.Contains(endpoints[name], key) {
				endpoints[name] = append(endpoints[name], key)
			}
		}
	}
	var targets []servedTarget
	for _, name := range slices.SortedFunc(maps.Keys(endpoints), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		targets = append(targets, servedTarget{Provider: name[0], Model: name[1], Endpoints: endpoints[name]})
	}
	return targets
}

// keysFail notes why the keys file, or an entry of it, can't be used.
func (w *Workspace) keysFail(message string) {
	c := &Condition{KeysInvalid, "keys", time.Now(), message}
	if last := w.Memory.badKeys.Load(); last != nil {
		c.Since = last.Since
	}
	w.Memory.badKeys.Store(c)
	w.gateway.metrics.keysValid.WithLabelValues(w.Name).Set(0)
}
