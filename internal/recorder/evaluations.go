package recorder

import "github.com/cadenza-gateway/cadenza/trace"

// MaxRequestSize bounds the records of one request together, in bytes: a request
// of many keys has a record for each. Past the bound the recorder leaves content
// out and adds a note. It keeps the traces themselves.
const MaxRequestSize = 16 << 20

// contentLeftOut is the note on a record whose content was too large.
const contentLeftOut = "content left out: too large to be recorded"

// Evaluations records the answers of one request, each as Evaluation does.
// Shared members count once, with the first record that is taken. Evaluations
// owns the records from then on, but not the slice, in which those that were not
// taken are nil afterwards.
func (r *Recorder) Evaluations(records []*trace.Record) {
	left, counted := MaxRequestSize, false
	for i, record := range records {
		shared := record.Shared
		counts := shared != nil && !counted
		size := r.bound(record, left, counts)
		counts = counts && record.Shared == shared // or that was left out
		record.State = trace.StateEnded
		if !r.push(record, size, false) {
			records[i] = nil
			continue
		}
		left -= size
		counted = counted || counts
	}
}

// bound drops the content of a record that is larger than limit, and returns
// the size of the record. The size includes the shared members if countsShared,
// or if no other record shares them any more.
func (r *Recorder) bound(record *trace.Record, limit int, countsShared bool) int {
	shared := record.Shared
	size := record.Size()
	if countsShared {
		size += sharedSize(shared)
	}
	if size <= limit || !record.DropContent() {
		return size
	}
	r.counters.contentLeftOut.Add(1)
	record.Notes = append(record.Notes, contentLeftOut)
	size = record.Size()
	if countsShared || record.Shared != shared {
		size += sharedSize(record.Shared)
	}
	return size
}
