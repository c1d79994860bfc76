package gateway

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
)

// recorderCollector exports the counts of all recorders. It reads them when Prometheus
// scrapes the metrics, so recording costs nothing more.
type recorderCollector struct {
	mu   sync.Mutex
	open map[string]*recorder.Recorder // by path
	// aside counts the damaged files that were set aside, by path.
	aside map[string]uint64
	// evicted counts the rows that were deleted to keep the maximum size, by path and
	// table.
	evicted map[string]map[string]int64

	described
	queue, up, commits, commitSeconds, failures, stored, dropped, rejected, setAside, evictions, leftOut *prometheus.Desc
}

func newRecorderCollector() *recorderCollector {
	c := &recorderCollector{
		open:    make(map[string]*recorder.Recorder),
		aside:   make(map[string]uint64),
		evicted: make(map[string]map[string]int64),
	}
	c.queue = c.describe("cadenza_store_queue_records", "Records that wait to be written.", "store")
	c.up = c.describe("cadenza_store_up", "1 while the store accepts writes.", "store")
	c.commits = c.describe("cadenza_store_commits_total", "Commits that succeeded.", "store")
	c.commitSeconds = c.describe("cadenza_store_commit_seconds_total", "Time that the commits took.", "store")
	c.failures = c.describe("cadenza_store_commit_failures_total", "Commits that failed.", "store")
	c.stored = c.describe("cadenza_store_records_total", "Records that were written.", "store")
	c.dropped = c.describe("cadenza_store_dropped_total", "Records that could not be kept.", "store", "workspace", "reason")
	c.rejected = c.describe("cadenza_store_metrics_rejected_total", "Metrics answered store_unavailable.", "store")
	c.setAside = c.describe("cadenza_store_set_aside_total", "Files that were found to be damaged, and set aside.", "store")
	c.evictions = c.describe("cadenza_store_evicted_total", "Rows that were deleted because they took more than they may.", "store", "table")
	c.leftOut = c.describe("cadenza_store_content_left_out_total", "Records that were kept without their content, which was too large.", "store")
	return c
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

// Collect reads the recorders' counts.
func (c *recorderCollector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for path, r := range c.open {
		stats := r.Stats()
		gauge(out, c.queue, float64(stats.Queued), path)
		gauge(out, c.up, oneIf(stats.Availability == recorder.Available), path)
		counter(out, c.commits, float64(stats.Commits), path)
		counter(out, c.commitSeconds, stats.CommitTime.Seconds(), path)
		counter(out, c.failures, float64(stats.CommitFailures), path)
		counter(out, c.stored, float64(stats.Stored), path)
		for workspace, drops := range stats.Workspaces {
			counter(out, c.dropped, float64(drops.QueueFull), path, workspace, "queue_full")
			counter(out, c.dropped, float64(drops.TooLarge), path, workspace, "too_large")
			counter(out, c.dropped, float64(drops.Failed), path, workspace, "failed")
			counter(out, c.dropped, float64(drops.Closed), path, workspace, "closed")
		}
		counter(out, c.leftOut, float64(stats.ContentLeftOut), path)
		counter(out, c.rejected, float64(stats.MetricsRejected), path)
		counter(out, c.setAside, float64(c.aside[path]), path)
		for _, table := range []string{"traces", "metrics", "replies"} {
			counter(out, c.evictions, float64(c.evicted[path][table]), path, table)
		}
	}
}
