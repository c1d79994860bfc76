package gateway

import (
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cadenza-gateway/cadenza/sinks"
)

// sinkCollector exports the counts of all sinks. It reads them when Prometheus scrapes the
// metrics.
type sinkCollector struct {
	mu   sync.Mutex
	open map[sinkName][]*sinks.Drain // the newest last; two during a reload
	// ended has the counts of drains of former configurations: counters continue after a
	// reload.
	ended map[sinkName]sinkCounts
	lost  map[sinkName]int64

	described
	up, pending, lag, delivered, failures, refused, losses *prometheus.Desc
}

type sinkName struct{ workspace, sink string }

type sinkCounts struct{ delivered, failures, stripped, dropped uint64 }

func countsOf(s sinks.Stats) sinkCounts {
	return sinkCounts{s.Delivered, s.Failures, s.Refusals.Stripped, s.Refusals.Dropped}
}

func (c sinkCounts) plus(more sinkCounts) sinkCounts {
	return sinkCounts{
		c.delivered + more.delivered, c.failures + more.failures, c.stripped + more.stripped, c.dropped + more.dropped,
	}
}

func newSinkCollector() *sinkCollector {
	c := &sinkCollector{
		open:  make(map[sinkName][]*sinks.Drain),
		ended: make(map[sinkName]sinkCounts),
		lost:  make(map[sinkName]int64),
	}
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return c.describe("cadenza_sink_"+name, help, append([]string{"workspace", "sink"}, labels...)...)
	}
	c.up = describe("up", "1 while the sink takes deliveries.")
	c.pending = describe("pending_rows", "Rows that the sink has yet to take.")
	c.lag = describe("lag_seconds", "Age of the oldest row that the sink has yet to take.")
	c.delivered = describe("delivered_rows_total", "Rows that the sink took, repetitions included.")
	c.failures = describe("failures_total", "Deliveries that failed and were tried again.")
	c.refused = describe("refused_rows_total", "Rows that the sink's place refused as they were: stripped of their content, or dropped.", "outcome")
	c.losses = describe("lost_rows_total", "Rows that the store's size made it delete before the sink took them.")
	return c
}

// lose counts rows that were deleted before the sink of a cursor took them.
func (c *sinkCollector) lose(cursor string, rows int64) {
	workspace, sink, _ := strings.Cut(cursor, "/")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost[sinkName{workspace, sink}] += rows
}

func (c *sinkCollector) add(workspace, sink string, drain *sinks.Drain) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := sinkName{workspace, sink}
	c.open[name] = append(c.open[name], drain)
}

// remove forgets a drain that has ended. Its counts are kept as long as its sink has
// another drain.
func (c *sinkCollector) remove(workspace, sink string, drain *sinks.Drain) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := sinkName{workspace, sink}
	c.open[name] = slices.DeleteFunc(c.open[name], func(other *sinks.Drain) bool { return other == drain })
	if len(c.open[name]) > 0 {
		c.ended[name] = c.ended[name].plus(countsOf(drain.Stats()))
		return
	}
	delete(c.open, name)
	delete(c.ended, name)
}

// Collect reads the drains' counts.
func (c *sinkCollector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, drains := range c.open {
		counts := c.ended[name]
		var stats sinks.Stats // of the newest
		for _, drain := range drains {
			stats = drain.Stats()
			counts = counts.plus(countsOf(stats))
		}
		gauge(out, c.up, oneIf(stats.Up), name.workspace, name.sink)
		gauge(out, c.pending, float64(stats.Pending), name.workspace, name.sink)
		gauge(out, c.lag, stats.Age.Seconds(), name.workspace, name.sink)
		counter(out, c.delivered, float64(counts.delivered), name.workspace, name.sink)
		counter(out, c.failures, float64(counts.failures), name.workspace, name.sink)
		counter(out, c.refused, float64(counts.stripped), name.workspace, name.sink, "stripped")
		counter(out, c.refused, float64(counts.dropped), name.workspace, name.sink, "dropped")
		counter(out, c.losses, float64(c.lost[name]), name.workspace, name.sink)
	}
}
