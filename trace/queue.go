package trace

import "sync"

// The bounds of one commit: the count by which waiting records are written at
// once, and the content, in bytes, past which a batch takes no more.
const (
	maxBatch      = 256
	maxBatchBytes = 4 << 20
)

// waitingStart is a start record; written is closed when it is stored.
type waitingStart struct {
	record  *Record
	written chan struct{}
}

// waitingMetrics is a metrics record with its reporter. result is buffered.
type waitingMetrics struct {
	metrics   *Metrics
	result    chan error
	abandoned bool // the reporter gave up; guarded by queue.mu
}

// queue holds what waits for the writer.
type queue struct {
	mu       sync.Mutex
	starts   fifo[waitingStart]
	records  fifo[*Record]
	metrics  fifo[*waitingMetrics]
	versions fifo[Version]

	bytes        int64 // of starts, records and versions
	metricsBytes int64
	state        Availability
	probing      bool // metrics are let in to find out whether the store works
	closing      bool
	lastError    error
	startsBefore bool // the last batch was one of starts
}

// urgency is how soon the writer must take a batch.
type urgency uint8

const (
	empty  urgency = iota
	lazy           // when the flush interval is over
	urgent         // now
)

func (q *queue) urgency() (urgency, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.starts.len() > 0 || q.metrics.len() > 0 || q.records.len() >= maxBatch || q.bytes >= maxBatchBytes:
		return urgent, q.closing
	case q.records.len() > 0 || q.versions.len() > 0:
		return lazy, q.closing
	}
	return empty, q.closing
}

// take moves the next batch into b and its waiters into starts and metrics. A
// batch of starts holds no metrics: a start waits for no fsync of its own
// batch. The two kinds of batch alternate while both have something to do.
func (q *queue) take(b *Batch, starts *[]waitingStart, metrics *[]*waitingMetrics) {
	q.mu.Lock()
	defer q.mu.Unlock()
	room, roomBytes := maxBatch, int64(maxBatchBytes)
	fits := func(size int) {
		room--
		roomBytes -= int64(size)
	}
	haveMetrics := q.metrics.len() > 0
	q.startsBefore = q.starts.len() > 0 && (!haveMetrics || !q.startsBefore)
	if q.startsBefore {
		for q.starts.len() > 0 && room > 0 && roomBytes > 0 {
			s := q.starts.pop()
			size := s.record.size()
			fits(size)
			q.bytes -= int64(size)
			b.Starts = append(b.Starts, s.record)
			*starts = append(*starts, s)
		}
		if haveMetrics {
			return
		}
	}
	for q.metrics.len() > 0 && room > 0 && roomBytes > 0 {
		w := q.metrics.pop()
		size := w.metrics.size()
		q.metricsBytes -= int64(size)
		if w.abandoned {
			continue
		}
		fits(size)
		b.Metrics = append(b.Metrics, w.metrics)
		*metrics = append(*metrics, w)
	}
	for q.records.len() > 0 && room > 0 && roomBytes > 0 {
		r := q.records.pop()
		size := r.size()
		fits(size)
		q.bytes -= int64(size)
		b.Records = append(b.Records, r)
	}
	for q.versions.len() > 0 && room > 0 && roomBytes > 0 {
		v := q.versions.pop()
		size := v.size()
		fits(size)
		q.bytes -= int64(size)
		b.Versions = append(b.Versions, v)
	}
}

// queued counts what waits.
func (q *queue) queued() int {
	return q.starts.len() + q.records.len() + q.metrics.len() + q.versions.len()
}

// refuse takes all waiting metrics out of the queue. The caller answers them.
func (q *queue) refuse() []*waitingMetrics {
	waiting := q.metrics.all()
	q.metrics.clear()
	q.metricsBytes = 0
	return waiting
}
