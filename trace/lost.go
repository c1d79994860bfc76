package trace

// refuseTaken fails the metrics of the batch and all that wait.
func (w *writer) refuseTaken(cause error) {
	err := unavailable(cause)
	for _, m := range w.metrics {
		m.result <- err
	}
	clear(w.metrics)
	clear(w.batch.Metrics)
	w.metrics, w.batch.Metrics = w.metrics[:0], w.batch.Metrics[:0]

	w.queue.mu.Lock()
	waiting := w.queue.refuse()
	w.queue.mu.Unlock()
	for _, m := range waiting {
		m.result <- err
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
	clear(b.Versions)
	clear(w.starts)
	clear(w.metrics)
	*b = Batch{Starts: b.Starts[:0], Records: b.Records[:0], Metrics: b.Metrics[:0], Versions: b.Versions[:0]}
	w.starts, w.metrics = w.starts[:0], w.metrics[:0]
}

// dropAll ends the recorder: what still waits is lost, counted and logged.
func (w *writer) dropAll() {
	w.queue.mu.Lock()
	w.queue.closing = true
	w.queue.state = Closed
	lost := w.queue.starts.len() + w.queue.records.len() + w.queue.versions.len()
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
