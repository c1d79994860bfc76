package gateway

import (
	"time"

	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/price"
	"github.com/cadenza-gateway/cadenza/providers"
)

// The states of a target, in addition to invoke.TargetState.
const (
	TargetUntried       = "untried"        // no call has tried it
	TargetNotConfigured = "not_configured" // its provider is not in the configuration: it is skipped
	TargetUnavailable   = "unavailable"    // its provider has no key, for example: it is skipped
)

// targetStates lists all states.
var targetStates = []string{
	TargetUntried, string(invoke.TargetOK), string(invoke.TargetFailing), string(invoke.TargetCooling), string(invoke.TargetEjected),
	TargetNotConfigured, TargetUnavailable,
}

// Target is a target of the served definitions, with its health.
type Target struct {
	// Target is PROVIDER/MODEL.
	Target   string `json:"target"`
	Provider string `json:"provider"`
	Model    string `json:"model,omitempty"`
	// Endpoints are the keys of the endpoints that name it.
	Endpoints []string `json:"endpoints"`
	// State is one of invoke.TargetState, or of the states above.
	State string `json:"state"`
	// Down reports whether the target is left alone, or has not answered since it was, or
	// whether several attempts in a row failed.
	Down bool `json:"down"`
	// Since is when the target was left alone, or else the time of its first failure after
	// its last answer. Zero: it has had no failure since.
	Since time.Time `json:"since,omitzero"`
	// Until is when the target may be called again.
	Until time.Time `json:"until,omitzero"`
	// Failures counts the failed attempts since the last answer.
	Failures int `json:"failures"`
	// Reason is why the target is skipped, or the failure because of which it is left alone,
	// or the failure of its last attempt.
	Reason string `json:"reason,omitempty"`
	// Shutdown is the first day on which the provider does not serve the model, if that is
	// known. Successor is the model that the provider recommends instead.
	Shutdown  price.Day `json:"shutdown,omitzero"`
	Successor string    `json:"successor,omitempty"`
	// LastFailure is the latest failure; nil: no failure is known.
	LastFailure *TargetFailure `json:"last_failure,omitempty"`
}

// TargetFailure is a failure of a target.
type TargetFailure struct {
	Time  time.Time `json:"time"`
	Class string    `json:"class"`
	Error string    `json:"error"` // without secrets and without text that may quote a prompt
}

// Targets returns the targets of the served definitions, sorted by provider and model.
func (w *Workspace) Targets() []Target {
	named := w.callTargets(w.Source.Snapshot()).named
	health := make(map[[2]string]*invoke.TargetHealth)
	known := w.Memory.engine.Targets()
	for i := range known {
		health[[2]string{known[i].Provider, known[i].Model}] = &known[i]
	}
	targets := make([]Target, len(named))
	for i, n := range named {
		t := &targets[i]
		name := invoke.Target{Name: n.Provider, Model: n.Model}
		*t = Target{Target: name.String(), Provider: n.Provider, Model: n.Model, Endpoints: n.Endpoints, State: TargetUntried, Shutdown: n.model.Shutdown, Successor: n.model.Successor}
		if h := health[[2]string{t.Provider, t.Model}]; h != nil {
			w.addHealth(t, h)
		}
		if problem := w.problemOf(t.Provider); problem != "" {
			t.State, t.Reason = TargetUnavailable, w.failureText(problem)
			if _, configured := w.Providers[t.Provider]; !configured {
				t.State = TargetNotConfigured
			}
		}
	}
	return targets
}

// ModelFacts is what the prices know of a provider's model.
type ModelFacts struct {
	// PromptPrice and CompletionPrice are US dollars per million tokens of the usual class
	// and of a short prompt; nil: the model has no price.
	PromptPrice     *float64 `json:"prompt_price,omitempty"`
	CompletionPrice *float64 `json:"completion_price,omitempty"`
	price.Model
}

// ModelFacts returns what the prices know of a model.
func (w *Workspace) ModelFacts(provider, model string) ModelFacts {
	facts := ModelFacts{Model: w.prices.Model(provider, w.hosts[provider], model)}
	if p := w.prices.Find(provider, w.hosts[provider], model); p != nil {
		facts.PromptPrice, facts.CompletionPrice = &p.Prompt, &p.Completion
	}
	return facts
}

// Cost returns what a call of a model costs in dollars; ok is false if it has no price.
func (w *Workspace) Cost(provider, model string, u *providers.Usage) (dollars float64, ok bool) {
	if p := w.prices.Find(provider, w.hosts[provider], model); p != nil {
		return p.Cost(u), true
	}
	return 0, w.priced(provider, model)
}

// shownTime returns a time in UTC and milliseconds.
func shownTime(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func (w *Workspace) addHealth(t *Target, h *invoke.TargetHealth) {
	t.State, t.Down, t.Failures = string(h.State), h.Down, h.Failures
	t.Since, t.Until = shownTime(h.Since), shownTime(h.Until)
	if last := &h.Last; last.Class != "" {
		t.LastFailure = &TargetFailure{shownTime(last.Time), string(last.Class), w.failureText(last.Text)}
	}
	switch {
	case h.Why.Class != "":
		t.Reason = string(h.Why.Class) + ": " + w.failureText(h.Why.Text)
	case h.Failures > 0:
		t.Reason = t.LastFailure.Class + ": " + t.LastFailure.Error
	}
}
