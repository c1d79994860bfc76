package gateway

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/inflight"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
)

// MaxFlags is how many flags an answer with all of them may have.
const MaxFlags = maxFlags

// Prepared returns how many lists of targets are prepared.
func (w *Workspace) Prepared() (lists int) {
	w.callTargets(w.Source.Snapshot()).lists.Range(func(_, _ any) bool {
		lists++
		return true
	})
	return lists
}

// Leases returns the number of requests that use the store.
func (s *Store) Leases() int64 { return s.count.Load() - 1 }

// Leases returns the number of requests that use the memory.
func (m *Memory) Leases() int64 { return m.count.Load() - 1 }

// HeldByRequests returns the bytes of large requests in all workspaces, and in one.
func (p *Process) HeldByRequests(m *Memory) (all, own int64) {
	return p.largeRequests.taken.Load(), m.largeRequests.taken.Load()
}

// RecordPeaks looks at the limits as it is done once a minute.
func (w *Workspace) RecordPeaks(now time.Time) { w.recordPeaks(now) }

// FillRequests takes all memory of a workspace for large requests. release frees it.
func (m *Memory) FillRequests() (release func()) {
	m.largeRequests.taken.Add(DefaultMaxLargeRequests)
	return func() { m.largeRequests.taken.Add(-DefaultMaxLargeRequests) }
}

// CallsInFlight returns the number of calls in flight in the process, and at a host.
func (p *Process) CallsInFlight(host string) (process, atHost int) {
	return p.calls.Process(), p.calls.Host(host)
}

// CallMetrics returns the gauge of a workspace's calls in flight, and the counter of
// calls refused by a ceiling.
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

// EnterCall admits a call with a key. It is in flight until leave is called.
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

// HeldByAnswers returns the bytes of a workspace's large answers.
func (m *Memory) HeldByAnswers() int64 { return m.largeAnswers.taken.Load() }

// FillAnswers takes all memory of a workspace for large answers. release frees it.
func (m *Memory) FillAnswers() (release func()) {
	m.largeAnswers.taken.Add(maxLargeAnswers / 2)
	return func() { m.largeAnswers.taken.Add(-maxLargeAnswers / 2) }
}

// Known returns the gateway's own fields for a request with a key.
func (w *Workspace) Known(key string) rules.Gateway {
	return &callOf(incoming{workspace: w, began: time.Now(), key: &principal{name: key}}).evaluation
}

// callOf returns a call of a request.
func callOf(in incoming) *call {
	c := newCall()
	c.incoming = in
	return c
}

// MaxCountedDefinitions exports the constant.
const MaxCountedDefinitions = maxCountedDefinitions

// SeriesOf returns the number of definitions of a snapshot with their own series.
func (p *Process) SeriesOf(snapshot *definition.Snapshot) int {
	w := &Workspace{WorkspaceConfig: WorkspaceConfig{Name: "many"}, calls: new(workspaceSeries)}
	return len(p.metrics.newServedSeries(w, snapshot).definitions)
}

// CountEverywhere creates the series of a workspace in which each definition was
// requested on two routes and each target failed in four ways.
func (p *Process) CountEverywhere(workspace string, snapshot *definition.Snapshot) {
	m := p.metrics
	for _, d := range snapshot.Definitions {
		m.requests.WithLabelValues(workspace, "decisions", d.Key, "ok").Inc()
	}
	for _, t := range targetsOf(snapshot) {
		for _, class := range []invoke.Class{invoke.Transient, invoke.Slow, invoke.RateLimit, invoke.Connect} {
			m.upstream.WithLabelValues(workspace, t.Provider, t.Model, string(class)).Observe(1)
		}
	}
}

// Counts reports whether the workspace has series for a definition of any snapshot.
func (w *Workspace) Counts(d *definition.Definition) bool { return w.seriesOf(d) != nil }

// Seal seals a provider's data like the workspace.
func (w *Workspace) Seal(origin, opaque string) string { return w.sealer().Seal(origin, opaque) }

// CallsOf returns the ceiling's own count of a workspace's calls in flight.
func (p *Process) CallsOf(workspace string) int { return p.calls.Workspace(workspace) }

// EventStreams returns the member eventStreams of an answer to the request r with the API
// key of a name.
func (g *Gateway) EventStreams(r *http.Request, workspace, key string, began time.Time) string {
	w := g.workspaces[workspace]
	in := &incoming{r: r, gateway: g, workspace: w, key: g.keys.named(workspace, key), snapshot: w.Source.Snapshot(), began: began}
	return string(in.appendEventStreams(nil))
}
