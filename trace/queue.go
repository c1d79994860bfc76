package trace

import (
	"errors"
	"sync"
)

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

// waitingDurable is a metrics record or a reply, whose sender waits until it is
// on stable storage. result is buffered.
type waitingDurable struct {
	metrics   *Metrics // or
	reply     *Reply
	result    chan error
	abandoned bool // the sender gave up; guarded by queue.mu
}

func (w *waitingDurable) size() int {
	if w.metrics != nil {
		return w.metrics.size()
	}
	return w.reply.size()
}

// queue holds what waits for the writer.
type queue struct {
	mu       sync.Mutex
	starts   fifo[waitingStart]
	records  fifo[*Record]
	durable  fifo[*waitingDurable]
	versions fifo[Version]

	pushed  uint64 // records that came
	settled uint64 // records that are stored or lost

	bytes        int64 // of starts, records and versions
	durableBytes int64
	state        Availability
	probing      bool // what is durable is let in to find out whether the store works
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
	case q.starts.len() > 0 || q.durable.len() > 0 || q.records.len() >= maxBatch || q.bytes >= maxBatchBytes:
		return urgent, q.closing
	case q.records.len() > 0 || q.versions.len() > 0:
		return lazy, q.closing
	}
	return empty, q.closing
}

// take moves the next batch into b and its waiters into starts and durable. A
// batch of starts holds nothing durable: a start waits for no fsync of its own
// batch. The two kinds of batch alternate while both have something to do.
func (q *queue) take(b *Batch, starts *[]waitingStart, durable *[]*waitingDurable) {
	q.mu.Lock()
	defer q.mu.Unlock()
	room, roomBytes := maxBatch, int64(maxBatchBytes)
	fits := func(size int) {
		room--
		roomBytes -= int64(size)
	}
	haveDurable := q.durable.len() > 0
	q.startsBefore = q.starts.len() > 0 && (!haveDurable || !q.startsBefore)
	if q.startsBefore {
		for q.starts.len() > 0 && room > 0 && roomBytes > 0 {
			s := q.starts.pop()
			size := s.record.Size()
			fits(size)
			q.bytes -= int64(size)
			b.Starts = append(b.Starts, s.record)
			*starts = append(*starts, s)
		}
		if haveDurable {
			return
		}
	}
	for q.durable.len() > 0 && room > 0 && roomBytes > 0 {
		w := q.durable.pop()
		size := w.size()
		q.durableBytes -= int64(size)
		if w.abandoned {
			continue
		}
		fits(size)
		if w.metrics != nil {
			b.Metrics = append(b.Metrics, w.metrics)
		} else {
			b.Replies = append(b.Replies, w.reply)
		}
		*durable = append(*durable, w)
	}
	for q.records.len() > 0 && room > 0 && roomBytes > 0 {
		r := q.records.pop()
		size := r.Size()
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
	return q.starts.len() + q.records.len() + q.durable.len() + q.versions.len()
}

// refusal is why nothing durable is let in, nil where it is.
func (q *queue) refusal() error {
	switch {
	case q.closing:
		return unavailable(errors.New("the gateway is shutting down"))
	case q.state != Available && !q.probing:
		return unavailable(q.lastError)
	}
	return nil
}

// refuse takes all that is durable out of the queue. The caller answers its
// senders.
func (q *queue) refuse() []*waitingDurable {
	waiting := q.durable.all()
	q.durable.clear()
	q.durableBytes = 0
	return waiting
}
