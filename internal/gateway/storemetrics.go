package gateway

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
)

// recorderCollector exports the counts of all recorders. They are read when metrics
// are scraped, so they add no cost to recording.
type recorderCollector struct {
	mu   sync.Mutex
	open map[string]*recorder.Recorder // by path
	// aside counts the damaged files that were set aside, by path.
	aside map[string]uint64
	// evicted counts the rows that were deleted to keep the maximum size, by path and
	// table.
	evicted map[string]map[string]int64

	queue, up, commits, commitSeconds, failures, stored, dropped, rejected, setAside, evictions, leftOut *prometheus.Desc
}

func newRecorderCollector() *recorderCollector {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("cadenza_store_"+name, help, append([]string{"store"}, labels...), nil)
	}
	return &recorderCollector{
		open:          make(map[string]*recorder.Recorder),
		aside:         make(map[string]uint64),
		evicted:       make(map[string]map[string]int64),
		queue:         describe("queue_records", "Records that wait to be written."),
		up:            describe("up", "1 while the store accepts writes."),
		commits:       describe("commits_total", "Commits that succeeded."),
		commitSeconds: describe("commit_seconds_total", "Time that the commits took."),
		failures:      describe("commit_failures_total", "Commits that failed."),
		stored:        describe("records_total", "Records that were written."),
		dropped:       describe("dropped_total", "Records that could not be kept.", "workspace", "reason"),
		rejected:      describe("metrics_rejected_total", "Metrics answered store_unavailable."),
		setAside:      describe("set_aside_total", "Files that were found to be damaged, and set aside."),
		evictions:     describe("evicted_total", "Rows that were deleted because they took more than they may.", "table"),
		leftOut:       describe("content_left_out_total", "Records that were kept without their content, which was too large."),
	}
}

func (c *recorderCollector) add(path string, r *recorder.Recorder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[path] = r
}

// countAside counts a damaged file that was set aside.
func (c *recorderCollector) countAside(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.aside[path]++
}

// countEvicted counts rows of a table that were deleted to keep the maximum size.
func (c *recorderCollector) countEvicted(path, table string, rows int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.evicted[path] == nil {
		c.evicted[path] = make(map[string]int64)
	}
	c.evicted[path][table] += rows
}

// remove forgets a recorder, unless another has taken its place.
func (c *recorderCollector) remove(path string, r *recorder.Recorder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[path] == r {
		delete(c.open, path)
	}
}

// Describe describes the metrics.
func (c *recorderCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		c.queue, c.up, c.commits, c.commitSeconds, c.failures, c.stored, c.dropped, c.rejected, c.setAside, c.evictions, c.leftOut,
	} {
		descs <- desc
	}
}

// Collect reads the recorders' counts.
func (c *recorderCollector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for path, r := range c.open {
		stats := r.Stats()
		gauge := func(desc *prometheus.Desc, value float64) {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, path)
		}
		counter := func(desc *prometheus.Desc, value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value, append([]string{path}, labels...)...)
		}
		gauge(c.queue, float64(stats.Queued))
		gauge(c.up, oneIf(stats.Availability == recorder.Available))
		counter(c.commits, float64(stats.Commits))
		counter(c.commitSeconds, stats.CommitTime.Seconds())
		counter(c.failures, float64(stats.CommitFailures))
		counter(c.stored, float64(stats.Stored))
		for workspace, drops := range stats.Workspaces {
			counter(c.dropped, float64(drops.QueueFull), workspace, "queue_full")
			counter(c.dropped, float64(drops.TooLarge), workspace, "too_large")
			counter(c.dropped, float64(drops.Failed), workspace, "failed")
			counter(c.dropped, float64(drops.Closed), workspace, "closed")
		}
		counter(c.leftOut, float64(stats.ContentLeftOut))
		counter(c.rejected, float64(stats.MetricsRejected))
		counter(c.setAside, float64(c.aside[path]))
		for _, table := range []string{"traces", "metrics", "replies"} {
			counter(c.evictions, float64(c.evicted[path][table]), table)
		}
	}
}

// Interface guard
var _ prometheus.Collector = (*recorderCollector)(nil)
