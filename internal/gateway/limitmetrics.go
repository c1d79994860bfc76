package gateway

import (
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cadenza-gateway/cadenza/internal/limit"
)

// limitMetrics are the metrics of the running workspaces' limits. Their labels name limits
// and no subjects, because callers may choose those.
type limitMetrics struct {
	names *seriesNames // knows which workspaces run

	mu     sync.Mutex
	counts map[limitRefusals]uint64 // refused requests

	described
	refused, used *prometheus.Desc
}

type limitRefusals struct {
	workspace, limit string
	measure          limit.Measure
}

func newLimitMetrics(names *seriesNames) *limitMetrics {
	m := &limitMetrics{names: names, counts: make(map[limitRefusals]uint64)}
	m.refused = m.describe("cadenza_limit_refused_total",
		"Requests that a limit refused, by what there was no room for.", "workspace", "limit", "measure")
	m.used = m.describe("cadenza_limit_used_ratio",
		"The share of a limit that is used, from 0, by the key, endpoint or value of the metadata that has used most.", "workspace", "limit")
	return m
}

// refuse counts a refused request.
func (m *limitMetrics) refuse(workspace, name string, measure limit.Measure) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[limitRefusals{workspace, name, measure}]++
}

// Collect reads the limits of the running workspaces. Each counter of refusals begins at 0,
// because an alert needs a first value to rise from.
func (m *limitMetrics) Collect(out chan<- prometheus.Metric) {
	m.mu.Lock()
	counts := maps.Clone(m.counts)
	m.mu.Unlock()
	now := time.Now()
	for _, w := range m.names.current() {
		for _, l := range w.CallLimits {
			gauge(out, m.used, float64(w.usedPercent(l, now))/100, w.Name, l.Name)
			for i := range limit.Measures {
				if measure := limit.Measure(i); bounds(l, measure) {
					count := counts[limitRefusals{w.Name, l.Name, measure}]
					counter(out, m.refused, float64(count), w.Name, l.Name, measure.String())
				}
			}
		}
	}
}
