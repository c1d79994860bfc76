package gateway

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cadenza-gateway/cadenza/internal/inflight"
)

// hostCollector exports the calls in flight at each host of the running workspaces, the
// ceiling of such calls, and the calls that API keys share.
type hostCollector struct {
	process *Process

	described
	calls, ceiling, shared *prometheus.Desc
}

func newHostCollector(p *Process) *hostCollector {
	c := &hostCollector{process: p}
	c.calls = c.describe("cadenza_host_calls", "Calls in flight at a host of a workspace's providers, those of all workspaces.", "workspace", "host")
	c.ceiling = c.describe("cadenza_host_ceiling", "How many calls may be in flight at a host for the workspace.", "workspace", "host")
	c.shared = c.describe("cadenza_host_shared_calls", "How many calls the API keys share at a host that does not bear those of all, 0 while they do not.", "workspace", "host")
	return c
}

// Collect counts the calls.
func (c *hostCollector) Collect(out chan<- prometheus.Metric) {
	for _, w := range c.process.metrics.names.current() {
		hosts := slices.Sorted(maps.Values(w.hosts))
		for _, host := range slices.Compact(hosts) {
			if host == "" {
				continue // a provider without a network
			}
			gauge(out, c.calls, float64(c.process.calls.Host(host)), w.Name, host)
			gauge(out, c.ceiling, float64(c.process.calls.HostCeiling(host, w.InFlight.AtHost(w.Name, inflight.Key{}))), w.Name, host)
			gauge(out, c.shared, float64(c.process.calls.HostShared(host)), w.Name, host)
		}
	}
}
