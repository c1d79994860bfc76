package recorder

import "github.com/cadenza-gateway/cadenza/trace"

// endCalls gives up the start records whose ends, or which themselves, the batch
// has stored: not before, or a crash in between would leave no trace of a call.
func (w *writer) endCalls() {
	if len(w.batch.Interrupted) > 0 {
		w.calls.Forget()
	}
	w.ids = w.ids[:0]
	for _, r := range w.batch.Records {
		w.ids = append(w.ids, r.ID)
	}
	w.sizes = w.calls.End(w.sizes[:0], w.ids)
	if len(w.sizes) == 0 {
		return
	}
	w.queue.mu.Lock()
	defer w.queue.mu.Unlock()
	for i, size := range w.sizes {
		if size > 0 {
			w.queue.shares.add(w.queue.shares.share(w.batch.Records[i].Workspace), callBytes, -size)
		}
	}
}

// loseEnd makes the call whose end is lost an interrupted one. It passes over
// records that end no call.
func (r *Recorder) loseEnd(record *trace.Record) {
	size := r.calls.Lose(record.ID)
	if size == 0 {
		return
	}
	r.queue.mu.Lock()
	r.queue.shares.add(r.queue.shares.share(record.Workspace), callBytes, -size)
	r.queue.mu.Unlock()
	r.signal()
}

// Call returns the record of a call that is under way, with its content, or nil.
func (r *Recorder) Call(id trace.ID) *trace.Record { return r.calls.Call(id) }

// Calls calls yield with the records of the calls that are under way until it
// returns false, in no order, without content, and with the mark of each call's
// begin. Calls that end meanwhile may be among them.
func (r *Recorder) Calls(yield func(record *trace.Record, begun int64) bool) {
	r.calls.Running(yield)
}

// Mark returns a mark that separates the calls that have begun from later ones.
// Marks ascend, also over restarts.
func (r *Recorder) Mark() int64 { return r.calls.Now() }
