package gateway

import (
	"go.uber.org/zap/zapcore"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

// The names of the events that Config.Emit gets. They are Caddy's events, too.
const (
	EventDefinitionsChanged = "cadenza.definitions_changed"
	EventDefinitionsInvalid = "cadenza.definitions_invalid"
	EventTargetEjected      = "cadenza.target_ejected"
	EventTargetRestored     = "cadenza.target_restored"
	EventLimitReached       = "cadenza.limit_reached"
	EventBudget80           = "cadenza.budget_80"
	EventRolloutStep        = "cadenza.rollout_step"
	EventRolloutStopped     = "cadenza.rollout_stopped"
)

// Events are the names of all events.
var Events = []string{
	EventDefinitionsChanged, EventDefinitionsInvalid, EventTargetEjected, EventTargetRestored, EventLimitReached, EventBudget80, EventRolloutStep, EventRolloutStopped,
}

// emit emits an event of a workspace.
func (w *Workspace) emit(name string, data map[string]any) {
	if w.gateway.emit == nil {
		return
	}
	data["workspace"] = w.Name
	w.gateway.emit(name, data)
}

// emitDefinitions emits an event when other definitions are served, and when a set of
// definitions is invalid. Each change has one event, even while two gateways follow the
// directory during a reload: they share the workspace's memory. The first definitions of
// a process are no change.
func (w *Workspace) emitDefinitions(snapshot *definition.Snapshot, err error) {
	state := snapshot.Revision
	if err != nil {
		state += ": " + err.Error()
	}
	before := w.Memory.definitions.Swap(&state)
	switch {
	case before != nil && *before == state:
	case err != nil:
		w.emit(EventDefinitionsInvalid, map[string]any{"revision": snapshot.Revision, "error": visible.Line(firstMistake(err))})
	case before != nil:
		data := zapcore.NewMapObjectEncoder()
		for _, field := range changes(w.last, snapshot) {
			field.AddTo(data)
		}
		data.Fields["revision"] = snapshot.Revision
		w.emit(EventDefinitionsChanged, data.Fields)
	}
}

// emitTarget emits an event when a target is left alone, or answers again after that. It
// is called with the log line, which each target gets at most once a minute for each kind
// of change: a target that fails and recovers with each call must not flood the handlers.
func (w *Workspace) emitTarget(name string, c *invoke.Change) {
	if c.Why.Class == "" {
		return // it failed often, and was not left alone
	}
	target := invoke.Target{Name: c.Provider, Model: c.Model}
	data := map[string]any{
		"target": target.String(), "provider": c.Provider, "model": c.Model, "failures": c.Failures,
		"class": string(c.Why.Class), "error": w.failureText(c.Why.Text), "since": timestamp(c.Since),
	}
	if name == EventTargetEjected {
		data["state"], data["until"] = string(c.State), timestamp(c.Until)
	}
	w.emit(name, data)
}
