package recorder

import "github.com/cadenza-gateway/cadenza/trace"

// MaxRequestSize bounds what the records of one request hold together, in bytes.
// A request of many keys may be recorded many times over, with what each key was
// answered. Past the bound content is left out, and told of in a note; the traces
// themselves are kept.
const MaxRequestSize = 16 << 20

// contentLeftOut is the note on a record whose content was too large.
const contentLeftOut = "content left out: too large to be recorded"

// Evaluations records the answers of one request, as Evaluation does each. What
// they share is counted once, with the first that is taken. It takes ownership of
// the records, not of the slice.
func (r *Recorder) Evaluations(records []*trace.Record) {
	room, counted := MaxRequestSize, false
	for _, record := range records {
		shared := record.Shared
		counts := shared != nil && !counted
		size := r.bound(record, room, counts)
		counts = counts && record.Shared == shared // or that was left out
		record.State = trace.StateEnded
		if r.push(record, size, false) {
			room -= size
			counted = counted || counts
		}
	}
}

// bound leaves the content of a record out where it is larger than room, and
// returns its size, with that of what it shares where it counts that.
func (r *Recorder) bound(record *trace.Record, room int, countsShared bool) int {
	shared := record.Shared
	size := record.Size()
	if countsShared {
		size += sharedSize(shared)
	}
	if size <= room || !record.DropContent() {
		return size
	}
	r.counters.contentLeftOut.Add(1)
	record.Notes = append(record.Notes, contentLeftOut)
	size = record.Size()
	if countsShared || record.Shared != shared { // what is left of it is the record's alone
		size += sharedSize(record.Shared)
	}
	return size
}
