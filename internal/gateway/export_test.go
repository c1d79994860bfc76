package gateway

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/inflight"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
)

// Leases returns how many requests use the store.
func (s *Store) Leases() int64 { return s.count.Load() - 1 }

// Leases returns how many requests use the memory.
func (m *Memory) Leases() int64 { return m.count.Load() - 1 }

// HeldByRequests returns how many bytes large requests hold in all workspaces, and
// in one.
func (p *Process) HeldByRequests(m *Memory) (all, own int64) {
	return p.largeRequests.taken.Load(), m.largeRequests.taken.Load()
}

// FillRequests takes all the room that a workspace's large requests have. give
// gives it back.
func (m *Memory) FillRequests() (give func()) {
	m.largeRequests.taken.Add(DefaultMaxLargeRequests)
	return func() { m.largeRequests.taken.Add(-DefaultMaxLargeRequests) }
}

// CallsInFlight returns how many calls of the process and at a host are in flight.
func (p *Process) CallsInFlight(host string) (process, atHost int) {
	return p.calls.Process(), p.calls.Host(host)
}

// CallMetrics returns the gauge of a workspace's calls in flight, and the counter of
// those that a ceiling refused.
func (p *Process) CallMetrics(workspace, ceiling string) (now, refused float64) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(p.metrics.inFlight, p.metrics.refused)
	families, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, family := range families {
		for _, metric := range family.Metric {
			labels := make(map[string]string)
			for _, label := range metric.Label {
				labels[label.GetName()] = label.GetValue()
			}
			switch {
			case labels["workspace"] != workspace:
			case family.GetName() == "cadenza_calls_in_flight":
				now = metric.GetGauge().GetValue()
			case labels["ceiling"] == ceiling:
				refused = metric.GetCounter().GetValue()
			}
		}
	}
	return now, refused
}

// EnterCall admits a call of a key, which is in flight until leave.
func (p *Process) EnterCall(workspace, key string) (leave func()) {
	digest := inflight.Key(digestOf(key))
	p.calls.Enter(workspace, digest, &inflight.Limits{Process: 1, Workspace: 1, Key: 1})
	return func() { p.calls.Leave(workspace, digest) }
}

// Routes returns the method and path of each route.
func Routes() []string {
	var list []string
	for _, r := range routes[1:] {
		list = append(list, r.method+" "+r.path)
	}
	return list
}

// ConditionCodes are the codes of conditions.
var ConditionCodes = conditionCodes

// VerifyDecision reports whether the workspace made id for a decision.
func (w *Workspace) VerifyDecision(id trace.ID) bool { return w.verifyDecision(id) }

// HeldByAnswers returns how many bytes a workspace's large answers hold.
func (m *Memory) HeldByAnswers() int64 { return m.largeAnswers.taken.Load() }

// FillAnswers takes all the room that a workspace's large answers have. give gives it
// back.
func (m *Memory) FillAnswers() (give func()) {
	m.largeAnswers.taken.Add(maxLargeAnswers / 2)
	return func() { m.largeAnswers.taken.Add(-maxLargeAnswers / 2) }
}

// Known is what the gateway knows of itself for a request with a key.
func (w *Workspace) Known(key string) rules.Gateway {
	return &call{workspace: w, began: time.Now(), key: &principal{name: key}}
}

// MaxCountedDefinitions is the constant of the same name.
const MaxCountedDefinitions = maxCountedDefinitions

// SeriesOf returns how many definitions of a snapshot have series of their own.
func (p *Process) SeriesOf(snapshot *definition.Snapshot) int {
	w := &Workspace{WorkspaceConfig: WorkspaceConfig{Name: "many"}, calls: new(workspaceSeries)}
	return len(p.metrics.newServedSeries(w, snapshot).definitions)
}

// CountEverywhere makes the series that a workspace has once each definition was asked
// for on two routes and each of its targets failed in four ways.
func (p *Process) CountEverywhere(workspace string, snapshot *definition.Snapshot) {
	m := p.metrics
	for d := range snapshot.All() {
		m.requests.WithLabelValues(workspace, "decisions", d.Key, "ok").Inc()
	}
	for _, t := range targetsOf(snapshot) {
		for _, class := range []invoke.Class{invoke.Transient, invoke.Slow, invoke.RateLimit, invoke.Connect} {
			m.upstream.WithLabelValues(workspace, t.Provider, t.Model, string(class)).Observe(1)
		}
	}
}

// Counts reports whether the workspace counts for a definition, of any snapshot.
func (w *Workspace) Counts(d *definition.Definition) bool { return w.seriesOf(d) != nil }

// Seal seals a provider's data as the workspace does.
func (w *Workspace) Seal(origin, opaque string) string { return w.sealer().Seal(origin, opaque) }

// CallsOf is how many calls of a workspace are in flight, by the ceiling's own count.
func (p *Process) CallsOf(workspace string) int { return p.calls.Workspace(workspace) }
