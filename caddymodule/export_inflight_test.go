package caddymodule

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cadenza-gateway/cadenza/internal/inflight"
)

// CallsInFlight is how many calls of the process and at a host are in flight.
func CallsInFlight(host string) (process, atHost int) { return inFlight.Process(), inFlight.Host(host) }

// CallMetrics are the gauge of calls in flight of a workspace, and the counter
// of those refused by a ceiling.
func CallMetrics(workspace, ceiling string) (now, refused float64) {
	registry := prometheus.NewRegistry()
	m := collectors()
	registry.MustRegister(m.inFlight, m.refused)
	families, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, family := range families {
		for _, metric := range family.Metric {
			labels := make(map[string]string)
			for _, label := range metric.Label {
				labels[label.GetName()] = label.GetValue()
			}
			switch {
			case labels["workspace"] != workspace:
			case family.GetName() == "cadenza_calls_in_flight":
				now = metric.GetGauge().GetValue()
			case labels["ceiling"] == ceiling:
				refused = metric.GetCounter().GetValue()
			}
		}
	}
	return now, refused
}

// OpenConnections is how many connections of callers are open.
func OpenConnections() int { return callers.Open() }

// SetMaxConnections bounds them, and returns what undoes it.
func SetMaxConnections(n int) (undo func()) {
	callers.SetLimit(n)
	return func() { callers.SetLimit(0) }
}

// EnterCall has a call of a key in flight until leave.
func EnterCall(workspace, key string) (leave func()) {
	digest := inflight.Key(digestOf(key))
	inFlight.Enter(workspace, digest, &inflight.Limits{Process: 1, Workspace: 1, Key: 1})
	return func() { inFlight.Leave(workspace, digest) }
}
