package gateway

import (
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cadenza-gateway/cadenza/sinks"
)

// sinkCollector exports the counts of all sinks. They are read when metrics are
// scraped.
type sinkCollector struct {
	mu   sync.Mutex
	open map[sinkName][]*sinks.Drain // the newest last; two during a reload
	// ended has the counts of drains of former configurations: counters go on over
	// a reload.
	ended map[sinkName]sinkCounts
	lost  map[sinkName]int64

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
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("cadenza_sink_"+name, help, append([]string{"workspace", "sink"}, labels...), nil)
	}
	return &sinkCollector{
		open:      make(map[sinkName][]*sinks.Drain),
		ended:     make(map[sinkName]sinkCounts),
		lost:      make(map[sinkName]int64),
		up:        describe("up", "1 while the sink takes deliveries."),
		pending:   describe("pending_rows", "Rows that the sink has yet to take."),
		lag:       describe("lag_seconds", "Age of the oldest row that the sink has yet to take."),
		delivered: describe("delivered_rows_total", "Rows that the sink took, repetitions included."),
		failures:  describe("failures_total", "Deliveries that failed and were tried again."),
		refused:   describe("refused_rows_total", "Rows that the sink's place refused as they were: stripped of their content, or dropped.", "outcome"),
		losses:    describe("lost_rows_total", "Rows that the store's size made it delete before the sink took them."),
	}
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

// Describe describes the metrics.
func (c *sinkCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{c.up, c.pending, c.lag, c.delivered, c.failures, c.refused, c.losses} {
		descs <- desc
	}
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
		gauge := func(desc *prometheus.Desc, value float64) {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, name.workspace, name.sink)
		}
		counter := func(desc *prometheus.Desc, value uint64, labels ...string) {
			out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value),
				append([]string{name.workspace, name.sink}, labels...)...)
		}
		gauge(c.up, oneIf(stats.Up))
		gauge(c.pending, float64(stats.Pending))
		gauge(c.lag, stats.Age.Seconds())
		counter(c.delivered, counts.delivered)
		counter(c.failures, counts.failures)
		counter(c.refused, counts.stripped, "stripped")
		counter(c.refused, counts.dropped, "dropped")
		counter(c.losses, uint64(c.lost[name]))
	}
}

// Interface guard
var _ prometheus.Collector = (*sinkCollector)(nil)
