package recorder

import "time"

// maxPeaks is how many peaks wait for the store.
const maxPeaks = 1000

// PeakID is what a peak is of: a subject of a limit, in an hour.
type PeakID struct {
	Workspace, Limit, Subject string
	Hour                      int64 // Unix hours
}

// Peak is the largest share of a limit that a subject used in an hour, as far as somebody
// looked.
type Peak struct {
	PeakID
	Measure, Ceiling string // of the fullest ceiling, in the configuration's words
	Percent          int
	Used             float64
}

// Peaked records what a subject of a limit uses at a time. Beyond maxPeaks that wait for
// the store, those of other subjects and hours are left out.
func (r *Recorder) Peaked(p Peak, now time.Time) {
	p.Hour = now.Unix() / 3600
	q := &r.queue
	q.mu.Lock()
	last, waits := q.peaks[p.PeakID]
	if keep := waits && p.Percent >= last.Percent || !waits && len(q.peaks) < maxPeaks && !q.closing; keep {
		if q.peaks == nil {
			q.peaks = make(map[PeakID]Peak)
		}
		q.peaks[p.PeakID] = p
	}
	q.mu.Unlock()
	if !waits {
		r.signal()
	}
}
