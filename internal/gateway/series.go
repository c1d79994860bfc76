package gateway

import (
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/inflight"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/trace"
)

// maxCountedDefinitions is the number of definitions of a workspace up to which each of them has
// series of its own: about 500 bytes of a scrape each. Of more, none has any.
const maxCountedDefinitions = 10_000

// workspaceSeries are the metrics of a workspace that counts by the names of its
// configuration, with the labels applied: looking labels up costs more than counting.
type workspaceSeries struct {
	inFlight, streams  prometheus.Gauge
	decisions, answers cacheSeries
	none               definitionSeries // of requests for no definition, or for several
}

// cacheSeries are the metrics of a cache.
type cacheSeries struct{ hit, miss, hits prometheus.Counter }

// add counts lookups.
func (s *cacheSeries) add(hits, misses int) {
	if hits > 0 {
		s.hit.Add(float64(hits))
		s.hits.Add(float64(hits))
	}
	if misses > 0 {
		s.miss.Add(float64(misses))
	}
}

// definitionSeries are the metrics of a definition.
type definitionSeries struct {
	name    string
	ok      []prometheus.Counter          // requests by the index of the route; nil: not made yet
	answers map[string]prometheus.Counter // by variant
	costs   map[modelName]prometheus.Counter
}

// modelName is a model of a provider, by the names that definitions use.
type modelName struct{ provider, model string }

// targetSeries are the metrics of a target that most calls count.
type targetSeries struct {
	answered   prometheus.Counter // attempts
	duration   prometheus.Observer
	firstToken prometheus.Observer
	tokens     []prometheus.Counter // by the index in tokenTypes
	tools      []prometheus.Counter // by the index in toolTypes
}

// tokenTypes are the values of the label type.
var tokenTypes = []struct {
	name string
	of   func(*trace.Attempt) int64
}{
	{"prompt", func(a *trace.Attempt) int64 { return a.PromptTokens }},
	{"cached", func(a *trace.Attempt) int64 { return a.CachedTokens }},
	{"cache_write", func(a *trace.Attempt) int64 { return a.CacheWriteTokens }},
	{"cache_write_hour", func(a *trace.Attempt) int64 { return a.CacheWriteHourTokens }},
	{"prompt_audio", func(a *trace.Attempt) int64 { return a.PromptAudioTokens }},
	{"prompt_image", func(a *trace.Attempt) int64 { return a.PromptImageTokens }},
	{"completion", func(a *trace.Attempt) int64 { return a.CompletionTokens }},
	{"reasoning", func(a *trace.Attempt) int64 { return a.ReasoningTokens }},
	{"completion_audio", func(a *trace.Attempt) int64 { return a.CompletionAudioTokens }},
	{"completion_image", func(a *trace.Attempt) int64 { return a.CompletionImageTokens }},
}

// toolTypes are the values of the label tool.
var toolTypes = []struct {
	name string
	of   func(*trace.Attempt) int64
}{
	{"web_search", func(a *trace.Attempt) int64 { return a.WebSearches }},
	{"file_search", func(a *trace.Attempt) int64 { return a.FileSearches }},
	{"code_execution", func(a *trace.Attempt) int64 { return a.CodeExecutions }},
}

// servedSeries are the metrics of a snapshot's definitions and of their targets. It is
// immutable.
type servedSeries struct {
	snapshot    *definition.Snapshot
	none        *definitionSeries // of requests for no definition; nil: nothing is counted
	definitions map[*definition.Definition]*definitionSeries
	targets     map[modelName]*targetSeries
	// names has the values of labels that the series may have, as joined joins them.
	names map[string]bool
}

// uncounted has no series: nothing is counted by it.
var uncounted = new(servedSeries)

// provider returns the name of a provider as series have it: empty where neither the
// configuration nor the definitions have the provider any more.
func (s *servedSeries) provider(name string) string {
	if s.names[joined("provider", name)] {
		return name
	}
	return ""
}

// joined joins values of labels that belong together, after the name of the first one.
func joined(label string, values ...string) string {
	return label + "\x00" + strings.Join(values, "\x00")
}

// counted has which labels of a family name definitions or targets. A series whose
// values are no longer those of a running workspace is deleted.
type counted struct {
	family vector
	labels []string
}

// countedNames returns the families with labels that name definitions and targets.
func (m *metrics) countedNames() []counted {
	target := []string{"provider", "model"}
	provider := []string{"provider"}
	return []counted{
		{m.requests, []string{"definition"}},
		{m.answers, []string{"kind", "definition", "variant"}},
		{m.cost, []string{"definition", "provider", "model"}},
		{m.attempts, target},
		{m.upstream, target},
		{m.firstToken, target},
		{m.tokens, target},
		{m.toolUses, target},
		{m.abandoned, provider},
		{m.fallbacks, provider},
		{m.retries, provider},
		{m.hedges, provider},
		{m.skips, provider},
		{m.leftAlone, provider},
	}
}

// seriesNames holds which names the workspaces that run count by.
type seriesNames struct {
	metrics *metrics
	mu      sync.Mutex
	running map[string][]*Workspace // by name; two during a reload
}

// begin makes the series of a workspace that starts.
func (n *seriesNames) begin(w *Workspace) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running == nil {
		n.running = make(map[string][]*Workspace)
	}
	n.running[w.Name] = append(n.running[w.Name], w)
	w.series.Store(n.metrics.newServedSeries(w, w.Source.Snapshot()))
	n.metrics.limits.begin(w.Name, w.CallLimits)
}

// follow has a workspace count by the names of a snapshot. The series of names that
// are gone are deleted. Calls that still run by the former snapshot count without
// them: with an empty label.
func (n *seriesNames) follow(w *Workspace, snapshot *definition.Snapshot) {
	n.mu.Lock()
	defer n.mu.Unlock()
	former := w.series.Load()
	if former == nil || former.snapshot == snapshot {
		return // the workspace has ended, or counts by them already
	}
	next := n.metrics.newServedSeries(w, snapshot)
	w.series.Store(next)
	for name := range former.names {
		if !next.names[name] {
			n.sweep(w.Name)
			return
		}
	}
}

// newest returns the workspace of a name that began last of those that run; nil: none
// does.
func (n *seriesNames) newest(name string) *Workspace {
	n.mu.Lock()
	defer n.mu.Unlock()
	running := n.running[name]
	if len(running) == 0 {
		return nil
	}
	return running[len(running)-1]
}

// end deletes the series of a workspace, but for those of a newer one of its name.
// Calls that still run count by the newer one's names, and nothing without one.
func (n *seriesNames) end(w *Workspace) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running[w.Name] = slices.DeleteFunc(n.running[w.Name], func(other *Workspace) bool { return other == w })
	w.series.Store(nil)
	n.metrics.limits.end(w, n.running[w.Name])
	if len(n.running[w.Name]) > 0 {
		n.sweep(w.Name)
		return
	}
	delete(n.running, w.Name)
	for _, family := range n.metrics.ofWorkspaces() {
		family.DeletePartialMatch(prometheus.Labels{"workspace": w.Name})
	}
}

// sweep deletes the series with names that no running workspace of a name has.
func (n *seriesNames) sweep(workspace string) {
	for _, c := range n.metrics.countedNames() {
		for _, labels := range labelsOf(c.family) {
			values := make([]string, len(c.labels))
			for i, label := range c.labels {
				values[i] = labels[label]
			}
			name := joined(c.labels[0], values...)
			if labels["workspace"] == workspace && !slices.ContainsFunc(n.running[workspace], func(w *Workspace) bool { return w.series.Load().names[name] }) {
				c.family.Delete(labels)
			}
		}
	}
}

// labelsOf returns the labels of each series of a family.
func labelsOf(family vector) []prometheus.Labels {
	series := make(chan prometheus.Metric)
	go func() {
		family.Collect(series)
		close(series)
	}()
	var list []prometheus.Labels
	for s := range series {
		var written dto.Metric
		if s.Write(&written) != nil {
			continue // the metrics of a vector never fail
		}
		labels := make(prometheus.Labels)
		for _, l := range written.Label {
			labels[l.GetName()] = l.GetValue()
		}
		list = append(list, labels)
	}
	return list
}

// newWorkspaceSeries makes the series of a workspace that name nothing of its
// definitions. They begin at zero: an alert needs a first value to rise from.
func (m *metrics) newWorkspaceSeries(w *Workspace) *workspaceSeries {
	cached := func(name string) cacheSeries {
		return cacheSeries{
			m.lookups.WithLabelValues(w.Name, name, "hit"), m.lookups.WithLabelValues(w.Name, name, "miss"), m.hits.WithLabelValues(w.Name, name),
		}
	}
	s := &workspaceSeries{
		inFlight: m.inFlight.WithLabelValues(w.Name), streams: m.streams.WithLabelValues(w.Name),
		decisions: cached("decisions"), answers: cached("answers"),
		none: definitionSeries{ok: make([]prometheus.Counter, len(m.routes))},
	}
	for i, name := range m.routes[1:] {
		s.none.ok[1+i] = m.requests.WithLabelValues(w.Name, name, "", "ok")
	}
	for _, ceiling := range inflight.Ceilings {
		m.refused.WithLabelValues(w.Name, ceiling.String())
	}
	for name := range w.Providers {
		m.abandoned.WithLabelValues(w.Name, name)
		m.fallbacks.WithLabelValues(w.Name, name)
		m.retries.WithLabelValues(w.Name, name)
		m.hedges.WithLabelValues(w.Name, name)
		for _, state := range []invoke.TargetState{invoke.TargetCooling, invoke.TargetEjected} {
			m.leftAlone.WithLabelValues(w.Name, name, string(state))
		}
		for _, reason := range invoke.SkipReasons {
			if reason == invoke.SkipNotConfigured {
				continue // it is
			}
			m.skips.WithLabelValues(w.Name, name, string(reason))
		}
	}
	return s
}

// newServedSeries makes the series of a snapshot, or finds those that there are.
func (m *metrics) newServedSeries(w *Workspace, snapshot *definition.Snapshot) *servedSeries {
	s := &servedSeries{
		snapshot:    snapshot,
		none:        &w.calls.none,
		definitions: make(map[*definition.Definition]*definitionSeries),
		targets:     make(map[modelName]*targetSeries),
		names:       map[string]bool{joined("definition", ""): true},
	}
	for name := range w.Providers {
		s.names[joined("provider", name)] = true
	}
	for _, t := range targetsOf(snapshot) {
		s.names[joined("provider", t.Provider)] = true
		s.names[joined("provider", t.Provider, t.Model)] = true
		s.names[joined("definition", "", t.Provider, t.Model)] = true
		s.targets[modelName{t.Provider, t.Model}] = m.newTargetSeries(w.Name, t.Provider, t.Model)
	}
	if len(snapshot.Prompts)+len(snapshot.Endpoints)+len(snapshot.RemoteConfigs) > maxCountedDefinitions {
		return s
	}
	for _, p := range snapshot.Prompts {
		m.addDefinition(s, w.Name, &p.Definition, "prompts", p.Variants())
	}
	for _, c := range snapshot.RemoteConfigs {
		m.addDefinition(s, w.Name, &c.Definition, "remoteconfigs", nil)
	}
	for _, e := range snapshot.Endpoints {
		series := m.addDefinition(s, w.Name, &e.Definition, "endpoints", e.Prompt.Variants())
		series.costs = make(map[modelName]prometheus.Counter)
		for t := range e.Named() {
			series.costs[modelName{t.Provider, t.Model}] = m.cost.WithLabelValues(w.Name, e.Key, t.Provider, t.Model)
			s.names[joined("definition", e.Key, t.Provider, t.Model)] = true
		}
	}
	return s
}

// addDefinition makes the series of a definition. Requests on other routes than its own
// one have theirs from the first one on.
func (m *metrics) addDefinition(s *servedSeries, workspace string, d *definition.Definition, own string, variants []*definition.Variant) *definitionSeries {
	series := &definitionSeries{
		name: d.Key, ok: make([]prometheus.Counter, len(m.routes)), answers: make(map[string]prometheus.Counter, max(1, len(variants))),
	}
	s.definitions[d] = series
	s.names[joined("definition", d.Key)] = true
	ok := m.requests.WithLabelValues(workspace, own, d.Key, "ok")
	for i, name := range m.routes {
		if name == own {
			series.ok[i] = ok
		}
	}
	add := func(variant string) {
		series.answers[variant] = m.answers.WithLabelValues(workspace, d.Kind.String(), d.Key, variant)
		s.names[joined("kind", d.Kind.String(), d.Key, variant)] = true
	}
	for _, v := range variants {
		add(v.Key)
	}
	if variants == nil {
		add("")
	}
	return series
}

func (m *metrics) newTargetSeries(workspace, provider, model string) *targetSeries {
	s := &targetSeries{
		answered:   m.attempts.WithLabelValues(workspace, provider, model, "ok"),
		duration:   m.upstream.WithLabelValues(workspace, provider, model, "ok"),
		firstToken: m.firstToken.WithLabelValues(workspace, provider, model),
	}
	for _, class := range invoke.Classes() {
		m.attempts.WithLabelValues(workspace, provider, model, string(class.Class))
	}
	for _, t := range tokenTypes {
		s.tokens = append(s.tokens, m.tokens.WithLabelValues(workspace, provider, model, t.name))
	}
	for _, t := range toolTypes {
		s.tools = append(s.tools, m.toolUses.WithLabelValues(workspace, provider, model, t.name))
	}
	return s
}
