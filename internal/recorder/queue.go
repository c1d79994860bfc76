package recorder

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

// The bounds of one commit: so many waiting records are written at once, and a
// batch of so many bytes of content takes no more.
const (
	maxBatch      = 256
	maxBatchBytes = 4 << 20
)

// place is the size of an item in the queue, and its workspace's share.
type place struct {
	share *share
	size  int64
}

// waitingRecord is the record of an answer, or of how a call ended.
type waitingRecord struct {
	place
	record *trace.Record
}

// waitingVersion is a version of a definition.
type waitingVersion struct {
	place
	version trace.Version
}

// waitingDurable is a metrics record or a reply. Its sender waits until it is on
// stable storage. result is buffered.
type waitingDurable struct {
	place
	metrics   []*trace.Metrics // for one commit; or
	reply     *trace.Reply
	result    chan error
	abandoned bool // the sender gave up; guarded by queue.mu
}

// measure returns the item's workspace and an estimate of its size in memory,
// in bytes.
func (w *waitingDurable) measure() (workspace string, size int) {
	for _, m := range w.metrics {
		workspace, size = m.Workspace, size+metricsSize(m)
	}
	if w.reply == nil {
		return workspace, size
	}
	return w.reply.Workspace, replySize(w.reply)
}

// count returns how many of the queue's places the item takes.
func (w *waitingDurable) count() int64 { return max(int64(len(w.metrics)), 1) }

// queue holds the items that wait for the writer.
type queue struct {
	mu       sync.Mutex
	records  []waitingRecord
	durable  []*waitingDurable
	versions []waitingVersion
	// revisions are the newest of each directory, of which a workspace has one, and
	// experiments the newest of each workspace.
	revisions   standing[Revision]
	experiments standing[Experiments]
	shares      shares
	refusals    refusals
	counts      counts
	peaks       map[PeakID]Peak

	pushed  uint64 // records that came; refusals, peaks and counts that the writer took
	settled uint64 // how many of them are stored or lost

	bytes        int64 // of records and versions
	durableBytes int64
	state        Availability
	since        time.Time // state became Available, or ceased to be
	probing      bool      // metrics and replies may wait: their commit shows whether the store works
	closing      bool
	lastError    error
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
	case len(q.durable) > 0 || len(q.revisions.waiting) > 0 || len(q.experiments.waiting) > 0 || len(q.records) >= maxBatch || q.bytes >= maxBatchBytes:
		return urgent, q.closing
	case len(q.records) > 0 || len(q.versions) > 0 || q.refusals.waiting() > 0 || len(q.peaks) > 0 || q.counts.some.Load():
		return lazy, q.closing
	}
	return empty, q.closing
}

// take moves the next batch into b and its waiters into durable.
func (q *queue) take(b *Batch, durable *[]*waitingDurable) {
	q.mu.Lock()
	defer q.mu.Unlock()
	items, size := maxBatch, int64(maxBatchBytes)
	take := func(bytes int64) {
		items--
		size -= bytes
	}
	b.Revisions, q.revisions.waiting = q.revisions.waiting, nil
	b.Experiments, q.experiments.waiting = q.experiments.waiting, nil
	b.Refusals = q.refusals.take(b.Refusals)
	b.Peaks = slices.AppendSeq(b.Peaks, maps.Values(q.peaks))
	clear(q.peaks)
	q.pushed += uint64(len(b.Refusals) + len(b.Peaks))
	taken := 0
	for ; taken < len(q.durable) && items > 0 && size > 0; taken++ {
		w := q.durable[taken]
		q.giveDurable(w)
		if w.abandoned {
			continue
		}
		take(w.size)
		if w.metrics != nil {
			items -= len(w.metrics) - 1
			b.Metrics = append(b.Metrics, w.metrics...)
		} else {
			b.Replies = append(b.Replies, w.reply)
		}
		*durable = append(*durable, w)
	}
	q.durable = slices.Delete(q.durable, 0, taken)
	taken = 0
	for ; taken < len(q.records) && items > 0 && size > 0; taken++ {
		r := q.records[taken]
		take(r.size)
		q.give(r.place, recordCount)
		b.Records = append(b.Records, r.record)
	}
	q.records = slices.Delete(q.records, 0, taken)
	taken = 0
	for ; taken < len(q.versions) && items > 0 && size > 0; taken++ {
		v := q.versions[taken]
		take(v.size)
		q.give(v.place, versionCount)
		b.Versions = append(b.Versions, v.version)
	}
	q.versions = slices.Delete(q.versions, 0, taken)
	// Counts come after the records that they are on, which waited here before them.
	if len(q.records) == 0 && q.counts.some.Load() {
		b.Counts = q.counts.take(b.Counts)
		q.pushed += uint64(len(b.Counts))
	}
}

// admits reports whether one more item that may be dropped fits. count is the
// resource that counts items of its kind.
func (q *queue) admits(p place, count resource, extra bool) bool {
	return q.shares.admits(p.share, count, 1, extra) && q.shares.admits(p.share, recordBytes, p.size, extra)
}

// takeUp counts an item that joins the queue, and give one that leaves it.
func (q *queue) takeUp(p place, count resource) {
	q.bytes += p.size
	q.shares.add(p.share, count, 1)
	q.shares.add(p.share, recordBytes, p.size)
}

func (q *queue) give(p place, count resource) {
	q.bytes -= p.size
	q.shares.add(p.share, count, -1)
	q.shares.add(p.share, recordBytes, -p.size)
}

func (q *queue) giveDurable(w *waitingDurable) {
	q.durableBytes -= w.size
	q.shares.add(w.share, durableCount, -w.count())
	q.shares.add(w.share, durableBytes, -w.size)
}

// queued counts the waiting items.
func (q *queue) queued() int {
	return len(q.records) + len(q.durable) + len(q.versions) + len(q.revisions.waiting) + len(q.experiments.waiting)
}

// refusal returns why the queue takes no metrics or replies, nil if it does.
func (q *queue) refusal() error {
	switch {
	case q.closing:
		return unavailable(errors.New("the gateway is shutting down"))
	case q.state != Available && !q.probing:
		return unavailable(q.lastError)
	}
	return nil
}

// refuse removes all metrics and replies from the queue. The caller answers their
// senders.
func (q *queue) refuse() []*waitingDurable {
	waiting := q.durable
	q.durable = nil
	for _, w := range waiting {
		q.giveDurable(w)
	}
	return waiting
}
