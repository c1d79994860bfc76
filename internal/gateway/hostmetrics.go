package gateway

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cadenza-gateway/cadenza/internal/inflight"
)

// hostCollector exports how many calls are in flight at each host that the running
// workspaces call, how many may be, and how many are shared.
type hostCollector struct {
	process                *Process
	calls, ceiling, shared *prometheus.Desc
}

func newHostCollector(p *Process) *hostCollector {
	return &hostCollector{
		process: p,
		calls:   prometheus.NewDesc("cadenza_host_calls", "Calls in flight at a host of a workspace's providers, those of all workspaces.", []string{"workspace", "host"}, nil),
		ceiling: prometheus.NewDesc("cadenza_host_ceiling", "How many calls may be in flight at a host for the workspace.", []string{"workspace", "host"}, nil),
		shared:  prometheus.NewDesc("cadenza_host_shared_calls", "How many calls the API keys share at a host that does not bear those of all, 0 while they do not.", []string{"workspace", "host"}, nil),
	}
}

// Describe describes the metrics.
func (c *hostCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.calls
	descs <- c.ceiling
	descs <- c.shared
}

// Collect counts the calls.
func (c *hostCollector) Collect(out chan<- prometheus.Metric) {
	for _, w := range c.process.metrics.workspaces.current() {
		hosts := slices.Sorted(maps.Values(w.hosts))
		for _, host := range slices.Compact(hosts) {
			if host == "" {
				continue // a provider without a network
			}
			out <- prometheus.MustNewConstMetric(c.calls, prometheus.GaugeValue, float64(c.process.calls.Host(host)), w.Name, host)
			out <- prometheus.MustNewConstMetric(c.ceiling, prometheus.GaugeValue, float64(c.process.calls.HostCeiling(host, w.InFlight.AtHost(w.Name, inflight.Key{}))), w.Name, host)
			out <- prometheus.MustNewConstMetric(c.shared, prometheus.GaugeValue, float64(c.process.calls.HostShared(host)), w.Name, host)
		}
	}
}

// Interface guard
var _ prometheus.Collector = (*hostCollector)(nil)
