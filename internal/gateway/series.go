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

// maxCountedDefinitions is the largest number of definitions for which a workspace has
// series of each definition, about 500 bytes of a scrape each. A workspace with more
// definitions has no series of definitions.
const maxCountedDefinitions = 10_000

// workspaceSeries are the metrics of a workspace that name nothing in its definitions, with
// the labels applied: looking labels up costs more than counting. A call that outlives its
// workspace counts in them without bringing deleted series back.
type workspaceSeries struct {
	inFlight, streams  prometheus.Gauge
	flagStreams        prometheus.Gauge
	decisions, answers cacheSeries
	none               definitionSeries // for requests for several definitions, or for none
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

// servedSeries are the metrics of a snapshot's definitions. It is immutable.
type servedSeries struct {
	snapshot    *definition.Snapshot
	none        *definitionSeries // for other requests; nil: nothing is counted
	definitions map[*definition.Definition]*definitionSeries
	// names has the values of labels that series may have, joined by joined.
	names map[string]bool
}

// uncounted has no series: requests that use it are not counted.
var uncounted = new(servedSeries)

// provider returns the name of a provider for the label of a series. It is empty if neither
// the configuration nor the definitions have the provider any more.
func (s *servedSeries) provider(name string) string {
	if s.names[joined("provider", name)] {
		return name
	}
	return ""
}

// target returns the names of a target for the labels of a series. The model is empty if no
// served definition names the target any more.
func (s *servedSeries) target(provider, model string) (countedProvider, countedModel string) {
	if s.names[joined("provider", provider, model)] {
		return provider, model
	}
	return s.provider(provider), ""
}

// joined joins the values of labels that belong together. label is the first one's name.
func joined(label string, values ...string) string {
	return label + "\x00" + strings.Join(values, "\x00")
}

// counted is a family with its labels that name definitions or targets. Series whose values
// no running workspace has any more are deleted.
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
		{m.fallbacks, provider},
		{m.retries, provider},
		{m.hedges, provider},
		{m.skips, provider},
		{m.leftAlone, provider},
	}
}

// seriesNames knows the running workspaces and the names in their series.
type seriesNames struct {
	metrics *metrics
	mu      sync.Mutex
	running map[string][]*Workspace // by name, the newest last; two during a reload
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
}

// follow makes a workspace use the series of a snapshot, and deletes the series of names
// that the snapshot lacks. Calls that still use the former snapshot count with an empty
// label instead of such a name.
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

// newest returns the newest running workspace of a name, or nil.
func (n *seriesNames) newest(name string) *Workspace {
	n.mu.Lock()
	defer n.mu.Unlock()
	running := n.running[name]
	if len(running) == 0 {
		return nil
	}
	return running[len(running)-1]
}

// current returns the newest running workspace of each name.
func (n *seriesNames) current() (list []*Workspace) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, all := range n.running {
		list = append(list, all[len(all)-1])
	}
	return list
}

// end deletes the series of a workspace, except those of a newer workspace of its name.
// Calls that still run count in the newer one's series, or not at all.
func (n *seriesNames) end(w *Workspace) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running[w.Name] = slices.DeleteFunc(n.running[w.Name], func(other *Workspace) bool { return other == w })
	w.series.Store(nil)
	if len(n.running[w.Name]) > 0 {
		n.sweep(w.Name)
		return
	}
	delete(n.running, w.Name)
	for _, family := range n.metrics.ofWorkspaces() {
		family.DeletePartialMatch(prometheus.Labels{"workspace": w.Name})
	}
}

// sweep deletes the series of a workspace's name with names that no such running workspace
// has.
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
		flagStreams: m.flagStreams.WithLabelValues(w.Name),
		decisions:   cached("decisions"), answers: cached("answers"),
		none: definitionSeries{ok: make([]prometheus.Counter, len(m.routes))},
	}
	for i, name := range m.routes[1:] {
		s.none.ok[1+i] = m.requests.WithLabelValues(w.Name, name, "", "ok")
	}
	for _, ceiling := range inflight.Ceilings {
		m.refused.WithLabelValues(w.Name, ceiling.String())
	}
	for name := range w.Providers {
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

// newServedSeries makes the series of a snapshot, or finds existing ones.
func (m *metrics) newServedSeries(w *Workspace, snapshot *definition.Snapshot) *servedSeries {
	s := &servedSeries{
		snapshot:    snapshot,
		none:        &w.calls.none,
		definitions: make(map[*definition.Definition]*definitionSeries),
		names:       map[string]bool{joined("definition", ""): true},
	}
	for name := range w.Providers {
		s.names[joined("provider", name)] = true
	}
	for _, t := range targetsOf(snapshot) {
		s.names[joined("provider", t.Provider)] = true
		s.names[joined("provider", t.Provider, t.Model)] = true
		s.names[joined("definition", "", t.Provider, t.Model)] = true
		m.beginTarget(w.Name, t.Provider, t.Model)
	}
	if len(snapshot.Definitions) > maxCountedDefinitions {
		return s
	}
	for _, d := range snapshot.Definitions {
		m.addDefinition(s, w.Name, d)
	}
	for _, e := range snapshot.Endpoints {
		for t := range e.Named() {
			m.cost.WithLabelValues(w.Name, e.Key, t.Provider, t.Model)
			s.names[joined("definition", e.Key, t.Provider, t.Model)] = true
		}
	}
	return s
}

// addDefinition makes the series of a definition. On other routes than the definition's own
// the first request makes the series.
func (m *metrics) addDefinition(s *servedSeries, workspace string, d *definition.Definition) {
	variants := []string{""}
	if p := d.Rendered(); p != nil {
		variants = variants[:0]
		for _, v := range p.Variants() {
			variants = append(variants, v.Key)
		}
	}
	series := &definitionSeries{
		name: d.Key, ok: make([]prometheus.Counter, len(m.routes)), answers: make(map[string]prometheus.Counter, len(variants)),
	}
	s.definitions[d] = series
	s.names[joined("definition", d.Key)] = true
	route := d.Kind.Folder // the name of its route
	ok := m.requests.WithLabelValues(workspace, route, d.Key, "ok")
	for i, name := range m.routes {
		if name == route {
			series.ok[i] = ok
		}
	}
	for _, variant := range variants {
		series.answers[variant] = m.answers.WithLabelValues(workspace, d.Kind.String(), d.Key, variant)
		s.names[joined("kind", d.Kind.String(), d.Key, variant)] = true
	}
}

// beginTarget makes the series of a target. They begin at zero.
func (m *metrics) beginTarget(workspace, provider, model string) {
	m.attempts.WithLabelValues(workspace, provider, model, "ok")
	m.upstream.WithLabelValues(workspace, provider, model, "ok")
	m.firstToken.WithLabelValues(workspace, provider, model)
	for _, class := range invoke.Classes() {
		m.attempts.WithLabelValues(workspace, provider, model, string(class.Class))
	}
	for _, t := range tokenTypes {
		m.tokens.WithLabelValues(workspace, provider, model, t.name)
	}
	for _, t := range toolTypes {
		m.toolUses.WithLabelValues(workspace, provider, model, t.name)
	}
}
