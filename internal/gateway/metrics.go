package gateway

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the gateway's Prometheus metrics. Labels are bounded: they name
// routes, codes, workspaces and providers, never keys or contexts.
type metrics struct {
	requests    *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	unknownKeys *prometheus.CounterVec
	attempts    *prometheus.CounterVec
	abandoned   *prometheus.CounterVec
	fallbacks   *prometheus.CounterVec
	skips       *prometheus.CounterVec
	leftAlone   *prometheus.CounterVec
	firstToken  *prometheus.HistogramVec
	streams     *prometheus.GaugeVec
	inFlight    *prometheus.GaugeVec
	refused     *prometheus.CounterVec
	lookups     *prometheus.CounterVec
	reloads     *prometheus.CounterVec
	loaded      *prometheus.GaugeVec
	valid       *prometheus.GaugeVec
	keysValid   *prometheus.GaugeVec
	recorders   *recorderCollector
	sinks       *sinkCollector
	workspaces  *workspaceCollector

	routes []routeSeries // by the index of the route
}

// routeSeries are a route's metrics with the label already applied: looking
// a label up costs more than counting.
type routeSeries struct {
	ok       prometheus.Counter
	duration prometheus.Observer
}

func newMetrics() *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cadenza_requests_total",
			Help: "Requests by route and by the code of the answer (ok, or an error code).",
		}, []string{"route", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "cadenza_request_duration_seconds",
			Help:    "Time from a request's arrival to the end of its answer.",
			Buckets: []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .05, .25, 1, 5, 15, 60},
		}, []string{"route"}),
		unknownKeys: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cadenza_unknown_keys_total",
			Help: "Keys that requests named and no definition has.",
		}, []string{"route"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cadenza_upstream_attempts_total",
			Help: "Calls of providers by their outcome (ok, or the class of failure).",
		}, []string{"workspace", "provider", "class"}),
		abandoned: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cadenza_upstream_abandoned_total",
			Help: "Calls that a provider went on with after their end.",
		}, []string{"workspace", "provider"}),
		fallbacks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cadenza_upstream_fallbacks_total",
			Help: "Answers of a target after another had failed or was skipped, by the provider that answered.",
		}, []string{"workspace", "provider"}),
		skips: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cadenza_upstream_skips_total",
			Help: "Targets that calls skipped, by the reason.",
		}, []string{"workspace", "provider", "reason"}),
		leftAlone: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cadenza_targets_left_alone_total",
			Help: "How often a target began to be left alone: by its breaker (ejected), or because of a limit, key, account or model (cooling).",
		}, []string{"workspace", "provider", "state"}),
		firstToken: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "cadenza_first_token_seconds",
			Help:    "Time from a request's arrival to the first content of a streamed answer.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20},
		}, []string{"workspace", "provider"}),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cadenza_streams",
			Help: "Answers being streamed now.",
		}, []string{"workspace"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cadenza_calls_in_flight",
			Help: "Calls of endpoints that wait for a provider or are being answered now.",
		}, []string{"workspace"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cadenza_calls_refused_total",
			Help: "Calls of endpoints that were refused, and targets that were skipped (host), because as many as may be were in flight.",
		}, []string{"workspace", "ceiling"}),
		lookups: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cadenza_cache_lookups_total",
			Help: "Lookups in the caches of models' answers and of the decisions of costly tables, by result (hit or miss).",
		}, []string{"workspace", "cache", "result"}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cadenza_definitions_reloads_total",
			Help: "Changes of the definitions by result (ok or error).",
		}, []string{"workspace", "result"}),
		loaded: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cadenza_definitions_loaded_timestamp_seconds",
			Help: "When the definitions that are served were loaded.",
		}, []string{"workspace"}),
		valid: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cadenza_definitions_valid",
			Help: "1 where the definitions on disk are those served, 0 where they are invalid, or take over 10 s to load, and the last good ones are served.",
		}, []string{"workspace"}),
		keysValid: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cadenza_keys_valid",
			Help: "1 where all of the API keys are in use, 0 where the keys file is refused, and its last keys stay, or some of its keys are.",
		}, []string{"workspace"}),
		recorders:  newRecorderCollector(),
		sinks:      newSinkCollector(),
		workspaces: newWorkspaceCollector(),
	}
	for _, r := range routes {
		m.routes = append(m.routes, routeSeries{
			ok:       m.requests.WithLabelValues(r.name, "ok"),
			duration: m.duration.WithLabelValues(r.name),
		})
	}
	return m
}

// Collectors returns the process's metrics. Caddy makes a new registry for each
// configuration; they are registered in each, so that counters go on over a
// reload.
func (p *Process) Collectors() []prometheus.Collector {
	m := p.metrics
	return []prometheus.Collector{
		m.requests, m.duration, m.unknownKeys, m.attempts, m.abandoned, m.fallbacks, m.skips, m.leftAlone, m.firstToken, m.streams, m.inFlight, m.refused, m.lookups,
		m.reloads, m.loaded, m.valid, m.keysValid, m.recorders, m.sinks, m.workspaces,
	}
}

// observe counts an answered request. code is "" for success.
func (m *metrics) observe(to *route, code string, began time.Time) {
	r := &m.routes[to.index]
	if code == "" {
		r.ok.Inc()
	} else {
		m.requests.WithLabelValues(to.name, code).Inc()
	}
	r.duration.Observe(time.Since(began).Seconds())
}
