package gateway

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cadenza-gateway/cadenza/internal/limit"
)

// limitMetrics are the metrics of limits. Their labels name limits and never whose use
// is counted, which callers may choose.
type limitMetrics struct {
	workspaces *workspaceCollector
	refused    *prometheus.CounterVec
	used       *prometheus.Desc
}

func newLimitMetrics(workspaces *workspaceCollector) *limitMetrics {
	return &limitMetrics{
		workspaces: workspaces,
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cadenza_limit_refused_total",
			Help: "Requests that a limit refused, by what there was no room for.",
		}, []string{"workspace", "limit", "measure"}),
		used: prometheus.NewDesc("cadenza_limit_used_ratio",
			"The share of a limit that is used, from 0, by the key, endpoint or value of the metadata that has used most.", []string{"workspace", "limit"}, nil),
	}
}

// begin has the counters of a workspace begin at zero: an alert needs a first value to
// rise from.
func (m *limitMetrics) begin(workspace string, limits []*limit.Limit) {
	for _, l := range limits {
		for _, c := range l.Ceilings {
			m.refused.WithLabelValues(workspace, l.Name, MeasureName(c.Measure))
		}
	}
}

// refuse counts a refused request, unless no configuration that runs has such a
// ceiling any more.
func (m *limitMetrics) refuse(w *Workspace, limit, measure string) {
	if w = w.counting(); w == nil {
		return
	}
	for _, l := range w.CallLimits {
		for _, c := range l.Ceilings {
			if l.Name == limit && MeasureName(c.Measure) == measure {
				m.refused.WithLabelValues(w.Name, limit, measure).Inc()
				return
			}
		}
	}
}

// end deletes the counters of a workspace's limits, but for those that others of its
// name, which run, have.
func (m *limitMetrics) end(w *Workspace, others []*Workspace) {
	kept := make(map[[2]string]bool)
	for _, other := range others {
		for _, l := range other.CallLimits {
			for _, c := range l.Ceilings {
				kept[[2]string{l.Name, MeasureName(c.Measure)}] = true
			}
		}
	}
	for _, l := range w.CallLimits {
		for _, c := range l.Ceilings {
			if measure := MeasureName(c.Measure); !kept[[2]string{l.Name, measure}] {
				m.refused.DeleteLabelValues(w.Name, l.Name, measure)
			}
		}
	}
}

// Describe describes the metrics.
func (m *limitMetrics) Describe(descs chan<- *prometheus.Desc) {
	m.refused.Describe(descs)
	descs <- m.used
}

// Collect looks at the limits of the workspaces that run.
func (m *limitMetrics) Collect(out chan<- prometheus.Metric) {
	m.refused.Collect(out)
	now := time.Now()
	for _, w := range m.workspaces.current() {
		for _, l := range w.CallLimits {
			out <- prometheus.MustNewConstMetric(m.used, prometheus.GaugeValue, float64(w.usedPercent(l, now))/100, w.Name, l.Name)
		}
	}
}

// Interface guard
var _ prometheus.Collector = (*limitMetrics)(nil)
