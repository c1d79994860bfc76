package gateway

import (
	"errors"
	"net/http"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/inflight"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/trace"
)

// counting returns the workspace by whose names w counts: w or, once it has ended,
// the one of its name that runs in its place; nil: none does.
func (w *Workspace) counting() *Workspace {
	if w.series.Load() != nil {
		return w
	}
	return w.gateway.metrics.names.newest(w.Name)
}

// countedBy returns the metrics that a workspace counts by now.
func (w *Workspace) countedBy() *servedSeries {
	if s := w.series.Load(); s != nil {
		return s
	}
	if other := w.counting(); other != nil {
		if s := other.series.Load(); s != nil {
			return s
		}
	}
	return uncounted
}

// seriesOf returns the metrics of a definition that is served, nil of another one.
func (w *Workspace) seriesOf(d *definition.Definition) *definitionSeries {
	s := w.countedBy()
	if series := s.definitions[d]; series != nil {
		return series
	}
	// A request may see a new snapshot before the workspace follows it, or still have
	// an old one.
	if newest := w.Source.Snapshot(); newest != s.snapshot {
		w.gateway.metrics.names.follow(w, newest)
		s = w.countedBy()
	}
	if s.snapshot == nil {
		return nil
	}
	return s.definitions[sameIn(s.snapshot, d)]
}

// sameIn returns the definition of a snapshot with the kind and the key of another one,
// nil where there is none.
func sameIn(snapshot *definition.Snapshot, d *definition.Definition) *definition.Definition {
	switch d.Kind {
	case trace.KindPrompt:
		if p, known := snapshot.Prompts[d.Key]; known {
			return &p.Definition
		}
	case trace.KindRemoteConfig:
		if c, known := snapshot.RemoteConfigs[d.Key]; known {
			return &c.Definition
		}
	case trace.KindEndpoint:
		if e, known := snapshot.Endpoints[d.Key]; known {
			return &e.Definition
		}
	}
	return nil
}

// asks has the request counted for the definition that it asks for.
func (c *call) asks(d *definition.Definition) {
	if s := c.workspace.seriesOf(d); s != nil {
		c.info.asked, c.info.counted = d, s
	}
}

// series returns what the request is counted for now: its definition may be gone since
// it was asked for, and its workspace. nil: it is not counted.
func (i *requestInfo) series() *definitionSeries {
	served := i.owner.countedBy()
	switch {
	case served == i.served:
		return i.counted
	case i.asked != nil:
		if s := i.owner.seriesOf(i.asked); s != nil {
			return s
		}
	}
	return served.none
}

// asksKeys has the request counted for the definition that it asks for, if it asks for
// one key.
func (c *call) asksKeys(prompts, configs []string) {
	if len(prompts)+len(configs) != 1 {
		return
	}
	if len(prompts) == 1 {
		if p := c.snapshot.Prompt(prompts[0]); p != nil {
			c.asks(&p.Definition)
		}
		return
	}
	if config := c.snapshot.RemoteConfig(configs[0]); config != nil {
		c.asks(&config.Definition)
	}
}

// countPicked counts the answers to the keys of a request.
func (c *call) countPicked() {
	for i := range c.picked {
		p := &c.picked[i]
		if p.prompt != nil {
			c.countAnswer(&p.prompt.Definition, p.prompt.Variant(p.decision).Key)
		} else {
			c.countAnswer(&p.config.Definition, "")
		}
	}
}

// countAnswer counts an answer of a definition. That of a definition, or variant, that
// is no longer served is not counted.
func (c *call) countAnswer(d *definition.Definition, variant string) {
	if s := c.workspace.seriesOf(d); s != nil {
		if answers := s.answers[variant]; answers != nil {
			answers.Inc()
		}
	}
}

// count counts a call that has ended, with the costs that its record has.
func (i *invocation) count(result *invoke.Result) {
	m, w, served, counted := i.gateway.metrics, i.workspace, i.workspace.countedBy(), i.info.series()
	for n := range result.Attempts {
		if a := &result.Attempts[n]; a.Abandoned {
			// It ignores the call's context, and holds its resources until it returns.
			w.Logger.Error("a provider goes on with a call that has ended",
				zap.String("provider", a.Provider), zap.String("model", a.Model), zap.String("trace_id", i.info.traceID[0]))
		}
	}
	if counted == nil || served == uncounted {
		return
	}
	for n := range i.record.Attempts {
		i.countAttempt(served, counted, i.record.Attempts[:n+1])
		if a := &result.Attempts[n]; a.Abandoned {
			m.abandoned.WithLabelValues(w.Name, served.provider(a.Provider)).Inc()
		}
	}
	i.countTargets(served, result)
	for _, skipped := range result.Skipped {
		if errors.Is(skipped.Reason, invoke.ErrHostFull) {
			m.refused.WithLabelValues(w.Name, inflight.OfHost.String()).Inc()
		}
	}
	if result.Served >= 0 && result.FirstToken > 0 {
		target := &i.request.Targets[result.Served]
		if t := served.targets[modelName{target.Name, target.Model}]; t != nil {
			t.firstToken.Observe(result.FirstToken.Seconds())
		}
	}
	if i.record.Status == http.StatusOK {
		if answers := counted.answers[i.record.Variant]; answers != nil {
			answers.Inc()
		}
	}
}

// countAttempt counts the last one of the attempts.
func (i *invocation) countAttempt(served *servedSeries, counted *definitionSeries, attempts []trace.Attempt) {
	m, workspace := i.gateway.metrics, i.workspace.Name
	a := &attempts[len(attempts)-1]
	name := modelName{a.Provider, a.Model}
	t := served.targets[name]
	if t == nil {
		// No served definition has the target any more.
		name = modelName{provider: served.provider(a.Provider)}
		t = m.newTargetSeries(workspace, name.provider, "")
	}
	if a.Code == "" {
		t.answered.Inc()
		t.duration.Observe(a.Latency.Seconds())
	} else {
		m.attempts.WithLabelValues(workspace, name.provider, name.model, a.Code).Inc()
		m.upstream.WithLabelValues(workspace, name.provider, name.model, a.Code).Observe(a.Latency.Seconds())
	}
	if a.Hedge {
		m.hedges.WithLabelValues(workspace, name.provider).Inc()
	}
	for n := range attempts[:len(attempts)-1] {
		if earlier := &attempts[n]; earlier.Provider == a.Provider && earlier.Model == a.Model {
			m.retries.WithLabelValues(workspace, name.provider).Inc()
			break
		}
	}
	for n := range tokenTypes {
		if tokens := tokenTypes[n].of(a); tokens > 0 {
			t.tokens[n].Add(float64(tokens))
		}
	}
	for n := range toolTypes {
		if uses := toolTypes[n].of(a); uses > 0 {
			t.tools[n].Add(float64(uses))
		}
	}
	if a.Cost <= 0 {
		return
	}
	cost := counted.costs[name]
	if cost == nil {
		cost = m.cost.WithLabelValues(workspace, "", name.provider, name.model)
	}
	cost.Add(a.Cost)
}
