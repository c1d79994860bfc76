package recorder

import (
	"fmt"
	"testing"
	"time"
)

// TestPeaked keeps the largest of each hour, and so many until the store takes them.
func TestPeaked(t *testing.T) {
	r := &Recorder{}
	now := time.Unix(1_790_000_000, 0)
	peaked := func(subject string, percent int, at time.Time) {
		r.Peaked(Peak{PeakID: PeakID{Workspace: "w", Limit: "l", Subject: subject}, Percent: percent}, at)
	}
	for _, percent := range []int{20, 40, 30} {
		peaked("acme", percent, now)
	}
	peaked("acme", 10, now.Add(time.Hour))
	for i := range maxPeaks + 10 {
		peaked(fmt.Sprint(i), 1, now)
	}
	peaked("acme", 50, now) // has its place
	var batch Batch
	r.queue.take(&batch, nil)
	if len(batch.Peaks) != maxPeaks || len(r.queue.peaks) > 0 {
		t.Fatalf("%d peaks, %d wait", len(batch.Peaks), len(r.queue.peaks))
	}
	found := make(map[PeakID]int)
	for _, p := range batch.Peaks {
		found[p.PeakID] = p.Percent
	}
	hour := now.Unix() / 3600
	if found[PeakID{"w", "l", "acme", hour}] != 50 || found[PeakID{"w", "l", "acme", hour + 1}] != 10 {
		t.Errorf("%v", found)
	}
}
