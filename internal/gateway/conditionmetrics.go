package gateway

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cadenza-gateway/cadenza/internal/kind"
)

// workspaceCollector exports the conditions, definitions and targets of the running
// workspaces. It reads them when Prometheus scrapes the metrics.
type workspaceCollector struct {
	names *seriesNames // knows which workspaces run

	described
	degraded, definitions, age, down, state, shutdown *prometheus.Desc
}

func newWorkspaceCollector(names *seriesNames) *workspaceCollector {
	c := &workspaceCollector{names: names}
	c.degraded = c.describe("cadenza_degraded",
		"What is degraded, by the number of its subjects, such as targets that are down.", "workspace", "condition")
	c.definitions = c.describe("cadenza_definitions", "Definitions that are served.", "workspace", "kind")
	c.age = c.describe("cadenza_definitions_source_age_seconds",
		"Time since the source of bundles last had the definitions that are served.", "workspace")
	c.down = c.describe("cadenza_target_down",
		"1 where a target of the definitions is left alone, or was and has not answered since, or failed five times in a row.", "workspace", "provider", "model")
	c.state = c.describe("cadenza_target_state",
		"1 for the state that a target of the definitions is in, 0 for the others.", "workspace", "provider", "model", "state")
	c.shutdown = c.describe("cadenza_model_shutdown_timestamp_seconds",
		"When the provider ceases to serve a model that the definitions name, where that is known.", "workspace", "provider", "model")
	return c
}

// Collect reads the state of each running workspace.
func (c *workspaceCollector) Collect(out chan<- prometheus.Metric) {
	for _, w := range c.names.current() {
		name, subjects := w.Name, make(map[string]int)
		for _, condition := range w.Conditions() {
			subjects[condition.Code]++
		}
		// All of them: an alert needs a zero to rise from.
		for _, code := range conditionCodes {
			gauge(out, c.degraded, float64(subjects[code]), name, code)
		}
		counts := w.Source.Snapshot().Counts()
		for _, k := range kind.All {
			gauge(out, c.definitions, float64(counts[k]), name, k.String())
		}
		w.collectAge(out, c.age)
		for _, t := range w.Targets() {
			gauge(out, c.down, oneIf(t.Down), name, t.Provider, t.Model)
			if !t.Shutdown.IsZero() {
				gauge(out, c.shutdown, float64(t.Shutdown.Unix()), name, t.Provider, t.Model)
			}
			for _, state := range targetStates {
				gauge(out, c.state, oneIf(t.State == state), name, t.Provider, t.Model, state)
			}
		}
	}
}
