package gateway

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// workspaceCollector exports what is degraded in the workspaces that run, and how
// much they serve. Both are looked at when metrics are scraped.
type workspaceCollector struct {
	mu      sync.Mutex
	running map[string][]*Workspace // by name, the newest last; two during a reload

	degraded, definitions, down, state, shutdown *prometheus.Desc
}

func newWorkspaceCollector() *workspaceCollector {
	return &workspaceCollector{
		running: make(map[string][]*Workspace),
		degraded: prometheus.NewDesc("cadenza_degraded",
			"What is degraded, by the number of its subjects, such as targets that are down.", []string{"workspace", "condition"}, nil),
		definitions: prometheus.NewDesc("cadenza_definitions", "Definitions that are served.", []string{"workspace", "kind"}, nil),
		down: prometheus.NewDesc("cadenza_target_down",
			"1 where a target of the definitions is left alone, or was and has not answered since, or failed five times in a row.", []string{"workspace", "provider", "model"}, nil),
		state: prometheus.NewDesc("cadenza_target_state",
			"1 for the state that a target of the definitions is in, 0 for the others.", []string{"workspace", "provider", "model", "state"}, nil),
		shutdown: prometheus.NewDesc("cadenza_model_shutdown_timestamp_seconds",
			"When the provider ceases to serve a model that the definitions name, where that is known.", []string{"workspace", "provider", "model"}, nil),
	}
}

func (c *workspaceCollector) add(w *Workspace) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[w.Name] = append(c.running[w.Name], w)
}

func (c *workspaceCollector) remove(w *Workspace) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[w.Name] = slices.DeleteFunc(c.running[w.Name], func(other *Workspace) bool { return other == w })
	if len(c.running[w.Name]) == 0 {
		delete(c.running, w.Name)
	}
}

// current returns the running workspaces, of each name the newest.
func (c *workspaceCollector) current() (list []*Workspace) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, all := range c.running {
		list = append(list, all[len(all)-1])
	}
	return list
}

// Describe describes the metrics.
func (c *workspaceCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.degraded
	descs <- c.definitions
	descs <- c.down
	descs <- c.state
	descs <- c.shutdown
}

// Collect looks at the workspaces.
func (c *workspaceCollector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, all := range c.running {
		w := all[len(all)-1]
		subjects := make(map[string]int)
		for _, condition := range w.Conditions() {
			subjects[condition.Code]++
		}
		// All of them: an alert needs a zero to rise from.
		for _, code := range conditionCodes {
			out <- prometheus.MustNewConstMetric(c.degraded, prometheus.GaugeValue, float64(subjects[code]), name, code)
		}
		for kind, count := range w.Source.Snapshot().Counts() {
			out <- prometheus.MustNewConstMetric(c.definitions, prometheus.GaugeValue, float64(count), name, kind.String())
		}
		for _, t := range w.Targets() {
			out <- prometheus.MustNewConstMetric(c.down, prometheus.GaugeValue, oneIf(t.Down), name, t.Provider, t.Model)
			if !t.Shutdown.IsZero() {
				out <- prometheus.MustNewConstMetric(c.shutdown, prometheus.GaugeValue, float64(t.Shutdown.Unix()), name, t.Provider, t.Model)
			}
			for _, state := range targetStates {
				out <- prometheus.MustNewConstMetric(c.state, prometheus.GaugeValue, oneIf(t.State == state), name, t.Provider, t.Model, state)
			}
		}
	}
}

// oneIf returns the value of a gauge for what holds or does not.
func oneIf(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

// Interface guard
var _ prometheus.Collector = (*workspaceCollector)(nil)
