package trace

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
func (r *Recorder) Evaluations(records []*Record) {
	room, counted := MaxRequestSize, false
	for _, record := range records {
		shared := record.Shared
		counts := shared != nil && !counted
		if counts {
			shared.countedWith = record
		}
		size := r.bound(record, room)
		counts = counts && record.Shared == shared // or that was left out
		if r.Evaluation(record) {
			room -= size
			counted = counted || counts
		}
	}
}

// bound leaves the content of a record out where it is larger than room, and
// returns its size.
func (r *Recorder) bound(record *Record, room int) int {
	size := record.Size()
	if size <= room || !record.leaveOutContent() {
		return size
	}
	r.counters.contentLeftOut.Add(1)
	record.Notes = append(record.Notes, contentLeftOut)
	return record.Size()
}

// leaveOutContent reports whether there was any.
func (r *Record) leaveOutContent() (some bool) {
	for _, content := range []*[]byte{&r.Context, &r.Variables, &r.Messages, &r.Response, &r.ToolCalls} {
		some = some || len(*content) > 0
		*content = kept(*content)
	}
	if r.SharesContent && len(r.Shared.Context)+len(r.Shared.Variables) > 0 {
		some = true
		r.Shared = &Shared{Notes: r.Shared.Notes, Metadata: r.Shared.Metadata, countedWith: r}
		r.SharesContent = false
	}
	return some
}
