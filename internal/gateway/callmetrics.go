package gateway

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/inflight"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/trace"
)

// counting returns the workspace whose series w counts in: w while it runs, then the
// running workspace of the same name, or nil if none runs.
func (w *Workspace) counting() *Workspace {
	if w.series.Load() != nil {
		return w
	}
	return w.gateway.metrics.names.newest(w.Name)
}

// countedBy returns the series that the workspace counts in now.
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

// seriesOf returns the series of a definition, or nil if it is not served any more.
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
	return s.definitions[s.snapshot.Find(d.Kind, d.Key)]
}

// asks makes the request count for the definition that it asks for.
func (in *incoming) asks(d *definition.Definition) {
	if s := in.workspace.seriesOf(d); s != nil {
		in.info.asked, in.info.counted = d, s
	}
}

// series returns the series that count the request. Its definition, or its workspace, may
// have ended since the request arrived. It is nil if nothing counts the request.
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

// keyList is a list of keys of one kind in a request.
type keyList struct {
	kind *kind.Kind
	keys []string
}

// asksKeys makes a request for exactly one key count for that key's definition. It
// reports whether a definition has one of the keys.
func (in *incoming) asksKeys(lists ...keyList) (found bool) {
	var d *definition.Definition
	n := 0
	for _, a := range lists {
		n += len(a.keys)
		for i := 0; i < len(a.keys) && d == nil; i++ {
			d = in.snapshot.Named(a.kind, a.keys[i])
		}
	}
	if n == 1 && d != nil {
		in.asks(d)
	}
	return d != nil
}

// countPicked counts the answers to the keys of a request.
func (e *evaluation) countPicked() {
	for i := range e.picked {
		e.countAnswer(e.picked[i].definition, e.picked[i].variant())
	}
}

// countAnswer counts an answer of a definition, unless the definition or the variant is
// not served any more.
func (in *incoming) countAnswer(d *definition.Definition, variant string) {
	if s := in.workspace.seriesOf(d); s != nil {
		if answers := s.answers[variant]; answers != nil {
			answers.Inc()
		}
	}
}

// count counts a call that has ended. The record already has the costs.
func (i *invocation) count(result *invoke.Result) {
	m, w, served, counted := i.gateway.metrics, i.workspace, i.workspace.countedBy(), i.info.series()
	if counted == nil || served == uncounted {
		return
	}
	for n := range i.record.Attempts {
		i.countAttempt(served, counted, i.record.Attempts[:n+1])
	}
	i.countTargets(served, result)
	for _, skipped := range result.Skipped {
		if errors.Is(skipped.Reason, invoke.ErrHostFull) {
			m.refused.WithLabelValues(w.Name, inflight.OfHost.String()).Inc()
		}
	}
	if result.Served >= 0 && result.FirstToken > 0 {
		target := &i.request.Targets[result.Served]
		provider, model := served.target(target.Name, target.Model)
		m.firstToken.WithLabelValues(w.Name, provider, model).Observe(result.FirstToken.Seconds())
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
	provider, model := served.target(a.Provider, a.Model)
	class := cmp.Or(a.Code, "ok")
	m.attempts.WithLabelValues(workspace, provider, model, class).Inc()
	m.upstream.WithLabelValues(workspace, provider, model, class).Observe(a.Latency.Seconds())
	if a.Hedge {
		m.hedges.WithLabelValues(workspace, provider).Inc()
	}
	for n := range attempts[:len(attempts)-1] {
		if earlier := &attempts[n]; earlier.Provider == a.Provider && earlier.Model == a.Model {
			m.retries.WithLabelValues(workspace, provider).Inc()
			break
		}
	}
	for n := range tokenTypes {
		if tokens := tokenTypes[n].of(a); tokens > 0 {
			m.tokens.WithLabelValues(workspace, provider, model, tokenTypes[n].name).Add(float64(tokens))
		}
	}
	for n := range toolTypes {
		if uses := toolTypes[n].of(a); uses > 0 {
			m.toolUses.WithLabelValues(workspace, provider, model, toolTypes[n].name).Add(float64(uses))
		}
	}
	if a.Cost <= 0 {
		return
	}
	endpoint := counted.name
	if !served.names[joined("definition", endpoint, provider, model)] {
		endpoint = ""
	}
	m.cost.WithLabelValues(workspace, endpoint, provider, model).Add(a.Cost)
}
