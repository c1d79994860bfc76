package gateway

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cadenza-gateway/cadenza/internal/kind"
)

// metrics are the gateway's Prometheus metrics. The values of labels are bounded: names in
// the configuration and the served definitions, and the gateway's own words such as codes
// and classes. No label has text of a caller or a provider.
type metrics struct {
	requests    *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	answers     *prometheus.CounterVec
	unknownKeys *prometheus.CounterVec
	attempts    *prometheus.CounterVec
	upstream    *prometheus.HistogramVec
	fallbacks   *prometheus.CounterVec
	retries     *prometheus.CounterVec
	hedges      *prometheus.CounterVec
	skips       *prometheus.CounterVec
	leftAlone   *prometheus.CounterVec
	firstToken  *prometheus.HistogramVec
	tokens      *prometheus.CounterVec
	toolUses    *prometheus.CounterVec
	cost        *prometheus.CounterVec
	streams     *prometheus.GaugeVec
	flagStreams *prometheus.GaugeVec
	inFlight    *prometheus.GaugeVec
	refused     *prometheus.CounterVec
	lookups     *prometheus.CounterVec
	hits        *prometheus.CounterVec
	reloads     *prometheus.CounterVec
	loaded      *prometheus.GaugeVec
	valid       *prometheus.GaugeVec
	keysValid   *prometheus.GaugeVec
	recorders   *recorderCollector
	sinks       *sinkCollector
	workspaces  *workspaceCollector
	limits      *limitMetrics

	durations []prometheus.Observer // by the index of the route
	routes    []string              // their names
	names     seriesNames
}

// The upper bounds of the buckets of durations, in seconds. Models take up to minutes.
// Requests are calls of models and evaluations, which take 50 µs and more.
var (
	modelBuckets   = []float64{.005, .025, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120}
	requestBuckets = []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120}
)

// histogram returns the options of a histogram. It has classic buckets for scrapers of the
// text format, and is also a native histogram, with a relative error of 5 %.
func histogram(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	}
}

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	m := &metrics{
		requests: counter("cadenza_requests_total",
			"Requests by route, by the one key that was asked for, and by the code of the answer (ok, an error code, or client_gone).",
			"workspace", "route", "definition", "code"),
		duration: prometheus.NewHistogramVec(histogram("cadenza_request_duration_seconds",
			"Time from a request's arrival to the end of its answer.", requestBuckets), []string{"route"}),
		answers: counter("cadenza_answers_total",
			"Answers of definitions, one for each key of a request.", "workspace", "kind", "definition", "variant"),
		unknownKeys: counter("cadenza_unknown_keys_total", "Keys that requests named and no definition has.", "route"),
		attempts: counter("cadenza_upstream_attempts_total",
			"Calls of providers by their outcome (ok, or the class of failure).", "workspace", "provider", "model", "class"),
		upstream: prometheus.NewHistogramVec(histogram("cadenza_upstream_duration_seconds",
			"Time that a call of a provider took, by its outcome (ok, or the class of failure).", modelBuckets),
			[]string{"workspace", "provider", "model", "class"}),
		fallbacks: counter("cadenza_upstream_fallbacks_total",
			"Answers of a target after another had failed or was skipped, by the provider that answered.", "workspace", "provider"),
		retries: counter("cadenza_upstream_retries_total",
			"Calls of a target that had failed in the same call of an endpoint.", "workspace", "provider"),
		hedges: counter("cadenza_upstream_hedges_total",
			"Calls of a target beside another one that had not answered yet.", "workspace", "provider"),
		skips: counter("cadenza_upstream_skips_total",
			"Targets that calls skipped, by the reason.", "workspace", "provider", "reason"),
		leftAlone: counter("cadenza_targets_left_alone_total",
			"How often a target began to be left alone: by its breaker (ejected), or because of a limit, key, account or model (cooling).",
			"workspace", "provider", "state"),
		firstToken: prometheus.NewHistogramVec(histogram("cadenza_first_token_seconds",
			"Time from a request's arrival to the first content of a streamed answer.", modelBuckets),
			[]string{"workspace", "provider", "model"}),
		tokens: counter("cadenza_tokens_total",
			"Tokens of calls of providers. The types prompt and completion are all of them, the others are parts of these.",
			"workspace", "provider", "model", "type"),
		toolUses: counter("cadenza_provider_tool_uses_total",
			"How often providers ran tools of their own for an answer.", "workspace", "provider", "model", "tool"),
		cost: counter("cadenza_cost_usd_total",
			"What calls of providers cost, in US dollars, by the endpoint that was called.", "workspace", "definition", "provider", "model"),
		streams:     gauge("cadenza_streams", "Answers being streamed now.", "workspace"),
		flagStreams: gauge("cadenza_flag_streams", "Streams that tell of changes of flags, open now.", "workspace"),
		inFlight: gauge("cadenza_calls_in_flight",
			"Calls of endpoints that wait for a provider or are being answered now.", "workspace"),
		refused: counter("cadenza_calls_refused_total",
			"Calls of endpoints that were refused, and targets that were skipped (host), because as many as may be were in flight.",
			"workspace", "ceiling"),
		lookups: counter("cadenza_cache_lookups_total",
			"Lookups in the caches of models' answers and of the decisions of costly tables, by result (hit or miss).",
			"workspace", "cache", "result"),
		hits: counter("cadenza_cache_hits_total",
			"Answers of models, and decisions of costly tables, that a cache had.", "workspace", "cache"),
		reloads: counter("cadenza_definitions_reloads_total",
			"Changes of the definitions by result (ok or error).", "workspace", "result"),
		loaded: gauge("cadenza_definitions_loaded_timestamp_seconds",
			"When the definitions that are served were loaded.", "workspace"),
		valid: gauge("cadenza_definitions_valid",
			"1 where the definitions on disk are those served, 0 where they are invalid, or take over 10 s to load, and the last good ones are served.",
			"workspace"),
		keysValid: gauge("cadenza_keys_valid",
			"1 where all of the API keys are in use, 0 where the keys file is refused, and its last keys stay, or some of its keys are.",
			"workspace"),
		recorders: newRecorderCollector(),
		sinks:     newSinkCollector(),
	}
	m.workspaces, m.limits = newWorkspaceCollector(&m.names), newLimitMetrics(&m.names)
	for _, r := range routes {
		m.durations = append(m.durations, m.duration.WithLabelValues(r.name))
		m.routes = append(m.routes, r.name)
		if r.name == "decisions" || r.legacy || kind.InFolder(r.name) != nil {
			m.unknownKeys.WithLabelValues(r.name)
		}
	}
	m.names.metrics = m
	return m
}

// vector is a family of metrics with labels.
type vector interface {
	prometheus.Collector
	Delete(prometheus.Labels) bool
	DeletePartialMatch(prometheus.Labels) int
}

// ofWorkspaces returns the families with the label workspace.
func (m *metrics) ofWorkspaces() []vector {
	return []vector{
		m.requests, m.answers, m.attempts, m.upstream, m.fallbacks, m.retries, m.hedges, m.skips, m.leftAlone,
		m.firstToken, m.tokens, m.toolUses, m.cost, m.streams, m.flagStreams, m.inFlight, m.refused, m.lookups, m.hits,
		m.reloads, m.loaded, m.valid, m.keysValid,
	}
}

// Collectors returns the process's metrics. Caddy makes a new registry for each
// configuration; they are registered in each, so that counters go on over a
// reload.
func (p *Process) Collectors() []prometheus.Collector {
	m := p.metrics
	list := []prometheus.Collector{m.duration, m.unknownKeys, m.recorders, m.sinks, m.workspaces, newHostCollector(p), m.limits}
	for _, v := range m.ofWorkspaces() {
		list = append(list, v)
	}
	return list
}

// observe counts a request that has been answered.
func (m *metrics) observe(to *route, info *requestInfo, began time.Time) {
	m.durations[to.index].Observe(time.Since(began).Seconds())
	code := info.code
	if code == "" {
		code = "ok"
	}
	if info.owner == nil {
		m.requests.WithLabelValues("", to.name, "", code).Inc()
		return
	}
	counted := info.series()
	if counted == nil {
		return // no workspace of its name runs any more
	}
	if ok := counted.ok[to.index]; code == "ok" && ok != nil {
		ok.Inc()
		return
	}
	m.requests.WithLabelValues(info.workspace, to.name, counted.name, code).Inc()
}
