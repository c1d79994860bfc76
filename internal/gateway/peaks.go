package gateway

import (
	"context"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
)

const (
	// peakSubjects is how many subjects of each limit have their peaks kept: the fullest.
	peakSubjects = 20

	// maxPeakSubject bounds the subjects that have peaks, in bytes. A longer one counts
	// under its beginning and a hash, by which an erasure could not find its peaks.
	maxPeakSubject = 60

	// beforeEnd is how long before the end of each minute the limits are looked at. A window
	// of whole minutes has nearly all of its use then.
	beforeEnd = time.Second
)

// followPeaks looks at the limits once a minute, and has the shares that their fullest
// subjects use recorded. So calls do nothing for it. The peaks of shorter windows, and of
// calls in flight, may lie between two looks.
func (w *Workspace) followPeaks(ctx context.Context) {
	for {
		now := time.Now()
		next := now.Truncate(time.Minute).Add(time.Minute - beforeEnd)
		if !next.After(now) {
			next = next.Add(time.Minute)
		}
		timer := time.NewTimer(next.Sub(now))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
			w.recordPeaks(time.Now())
		}
	}
}

func (w *Workspace) recordPeaks(now time.Time) {
	limits := w.LimitStatus(peakSubjects)
	for i := range limits {
		for _, use := range limits[i].Fullest {
			if len(use.Subject) > maxPeakSubject {
				continue
			}
			w.Store.Recorder.Peaked(recorder.Peak{
				PeakID:  recorder.PeakID{Workspace: w.Name, Limit: limits[i].Name, Subject: use.Subject},
				Measure: use.Measure, Ceiling: use.Ceiling, Percent: use.Percent, Used: use.Used + use.Reserved,
			}, now)
		}
	}
}
