package recorder

import "github.com/cadenza-gateway/cadenza/trace"

// refuseTaken fails the metrics and replies in the batch and in the queue.
func (w *writer) refuseTaken(cause error) {
	err := unavailable(cause)
	for _, d := range w.durable {
		d.result <- err
	}
	clear(w.durable)
	clear(w.batch.Metrics)
	clear(w.batch.Replies)
	w.durable, w.batch.Metrics, w.batch.Replies = w.durable[:0], w.batch.Metrics[:0], w.batch.Replies[:0]

	w.queue.mu.Lock()
	waiting := w.queue.refuse()
	w.queue.mu.Unlock()
	for _, d := range waiting {
		d.result <- err
	}
}

// dropBatch empties the batch and counts it as lost.
func (w *writer) dropBatch() {
	for workspace, count := range w.batch.byWorkspace() {
		w.lose(workspace, lostFailed, count)
	}
	for _, r := range w.batch.Records {
		w.loseEnd(r)
	}
	w.Forget() // answers may be counted on these records
	w.calls.Forget()
	w.clearBatch()
}

// clearBatch empties the batch and releases its records.
func (w *writer) clearBatch() {
	w.queue.mu.Lock()
	w.queue.settled += uint64(len(w.batch.Records) + len(w.batch.Refusals) + len(w.batch.Peaks) + len(w.batch.Counts))
	w.queue.mu.Unlock()
	for _, r := range w.batch.Records {
		trace.ReleaseRecord(r)
	}
	b := &w.batch
	clear(b.Interrupted)
	clear(b.Records)
	clear(b.Metrics)
	clear(b.Replies)
	clear(b.Versions)
	clear(b.Revisions)
	clear(b.Experiments)
	clear(b.Refusals)
	clear(b.Peaks)
	clear(b.Counts)
	clear(w.durable)
	*b = Batch{
		Interrupted: b.Interrupted[:0], Records: b.Records[:0], Metrics: b.Metrics[:0],
		Replies: b.Replies[:0], Versions: b.Versions[:0], Revisions: b.Revisions[:0], Experiments: b.Experiments[:0],
		Refusals: b.Refusals[:0], Peaks: b.Peaks[:0], Counts: b.Counts[:0],
	}
	w.durable = w.durable[:0]
}

// dropAll ends the recorder. It drops, counts and logs the waiting items.
func (w *writer) dropAll() {
	w.queue.mu.Lock()
	w.queue.closing = true
	w.queue.state = Closed
	lost := w.queue.dropAll()
	cause := w.queue.lastError
	w.queue.mu.Unlock()
	w.refuseTaken(cause)
	for workspace, count := range w.batch.byWorkspace() {
		lost[workspace] += count
	}
	w.clearBatch()
	if len(lost) > 0 {
		w.options.Logger.Error("the trace recorder closed before everything was stored", "error", cause)
	}
	for workspace, count := range lost {
		w.lose(workspace, lostFailed, count)
	}
	w.logLosses()
}

// dropAll removes all that may be dropped and returns its count by workspace.
func (q *queue) dropAll() map[string]uint64 {
	lost := make(map[string]uint64)
	drop := func(p place, count resource) {
		lost[p.share.workspace]++
		q.give(p, count)
	}
	q.settled += uint64(len(q.records))
	refused := uint64(len(q.refusals.take(nil)) + len(q.peaks))
	clear(q.peaks)
	q.pushed += refused
	q.settled += refused
	for _, r := range q.records {
		drop(r.place, recordCount)
	}
	for _, v := range q.versions {
		drop(v.place, versionCount)
	}
	q.records, q.versions = nil, nil
	for _, r := range q.revisions.waiting {
		lost[r.Workspace]++
	}
	for _, e := range q.experiments.waiting {
		lost[e.Workspace]++
	}
	q.revisions.waiting, q.experiments.waiting = nil, nil
	for _, c := range q.counts.take(nil) {
		lost[c.Workspace] += uint64(c.Answers)
	}
	return lost
}

// byWorkspace counts the losses of the batch by workspace. Its metrics and
// replies were refused before.
func (b *Batch) byWorkspace() map[string]uint64 {
	counts := make(map[string]uint64)
	for _, records := range [][]*trace.Record{b.Interrupted, b.Records} {
		for _, r := range records {
			counts[r.Workspace]++
		}
	}
	for i := range b.Versions {
		counts[b.Versions[i].Workspace]++
	}
	for _, r := range b.Revisions {
		counts[r.Workspace]++
	}
	for _, e := range b.Experiments {
		counts[e.Workspace]++
	}
	for _, c := range b.Counts {
		counts[c.Workspace] += uint64(c.Answers)
	}
	return counts
}
