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

// seriesOf returns the metrics of a definition that is served, nil of another one.
func (w *Workspace) seriesOf(d *definition.Definition) *definitionSeries {
	s := w.series.Load()
	if series := s.definitions[d]; series != nil {
		return series
	}
	// A request may see a new snapshot before the workspace follows it, or still have
	// an old one.
	if newest := w.Source.Snapshot(); newest != s.snapshot {
		w.gateway.metrics.names.follow(w, newest)
		s = w.series.Load()
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
		c.info.counted = s
	}
}

// asksKeys has the request counted for the definition that it asks for, if it asks for
// one key.
func (c *call) asksKeys(prompts, configs []string) {
	if len(prompts)+len(configs) != 1 {
		return
	}
	if len(prompts) == 1 {
		if p, known := c.snapshot.Prompts[prompts[0]]; known {
			c.asks(&p.Definition)
		}
		return
	}
	if config, known := c.snapshot.RemoteConfigs[configs[0]]; known {
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
	m, w, served := i.gateway.metrics, i.workspace, i.workspace.series.Load()
	for n := range i.record.Attempts {
		i.countAttempt(served, i.record.Attempts[:n+1])
		if a := &result.Attempts[n]; a.Abandoned {
			m.abandoned.WithLabelValues(w.Name, a.Provider).Inc()
			// It ignores the call's context, and holds its resources until it returns.
			w.Logger.Error("a provider goes on with a call that has ended",
				zap.String("provider", a.Provider), zap.String("model", a.Model), zap.String("trace_id", i.info.traceID[0]))
		}
	}
	i.countTargets(result)
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
		if answers := i.info.counted.answers[i.record.Variant]; answers != nil {
			answers.Inc()
		}
	}
}

// countAttempt counts the last one of the attempts.
func (i *invocation) countAttempt(served *servedSeries, attempts []trace.Attempt) {
	m, workspace := i.gateway.metrics, i.workspace.Name
	a := &attempts[len(attempts)-1]
	name := modelName{a.Provider, a.Model}
	t := served.targets[name]
	if t == nil {
		// No served definition has the target any more.
		name.model = ""
		t = m.newTargetSeries(workspace, a.Provider, "")
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
	cost := i.info.counted.costs[name]
	if cost == nil {
		cost = m.cost.WithLabelValues(workspace, "", name.provider, name.model)
	}
	cost.Add(a.Cost)
}
