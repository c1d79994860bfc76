package trace

// refuseTaken fails the metrics and replies of the batch and all that wait.
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

// dropBatch gives the batch up and counts it.
func (w *writer) dropBatch() {
	if n := w.batch.Len(); n > 0 {
		w.counters.failed.Add(uint64(n))
		w.options.Logger.Error("trace records were lost", "count", n)
	}
	w.clearBatch()
}

// clearBatch empties the batch and releases its records.
func (w *writer) clearBatch() {
	w.queue.mu.Lock()
	w.queue.settled += uint64(len(w.batch.Records))
	w.queue.mu.Unlock()
	for _, s := range w.batch.Starts {
		ReleaseRecord(s)
	}
	for _, r := range w.batch.Records {
		ReleaseRecord(r)
	}
	b := &w.batch
	clear(b.Starts)
	clear(b.Records)
	clear(b.Metrics)
	clear(b.Replies)
	clear(b.Versions)
	clear(w.starts)
	clear(w.durable)
	*b = Batch{
		Starts: b.Starts[:0], Records: b.Records[:0], Metrics: b.Metrics[:0],
		Replies: b.Replies[:0], Versions: b.Versions[:0],
	}
	w.starts, w.durable = w.starts[:0], w.durable[:0]
}

// dropAll ends the recorder: what still waits is lost, counted and logged.
func (w *writer) dropAll() {
	w.queue.mu.Lock()
	w.queue.closing = true
	w.queue.state = Closed
	lost := w.queue.starts.len() + w.queue.records.len() + w.queue.versions.len()
	w.queue.settled += uint64(w.queue.records.len())
	w.queue.starts.clear()
	w.queue.records.clear()
	w.queue.versions.clear()
	w.queue.bytes = 0
	cause := w.queue.lastError
	w.queue.mu.Unlock()
	w.refuseTaken(cause)
	lost += w.batch.Len()
	w.clearBatch()
	if lost > 0 {
		w.counters.failed.Add(uint64(lost))
		w.options.Logger.Error("the trace recorder closed before everything was stored", "lost", lost, "error", cause)
	}
}
