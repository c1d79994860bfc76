package console

import (
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// TestPeakBars places peaks in the last week, each of 100 percent.
func TestPeakBars(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 30, 0, 0, time.UTC)
	hour := now.Truncate(time.Hour)
	bars := peakBars([]sqlite.PeakRow{
		{Hour: hour.Add(-200 * time.Hour), Percent: 100}, {Hour: hour.Add(-167 * time.Hour), Percent: 50}, {Hour: hour.Add(-time.Hour), Percent: 80}, {Hour: hour, Percent: 130},
	}, now)
	if len(bars) != 168 || bars[0].Height != barHeight/2 || bars[0].Class != "" || bars[166].Class != "warn" || bars[166].Height != barHeight*8/10 || bars[167].Height != barHeight || bars[100].Height != 0 {
		t.Errorf("%+v", bars)
	}
}

// TestTracesOfSubjects selects the traces of what limits count by.
func TestTracesOfSubjects(t *testing.T) {
	for _, test := range [][3]string{
		{"metadata.customer", "a & b", "metadata=customer%3Da+%26+b"}, {"api_key", "web", "api_key=web"}, {"endpoint", "chat", "key=chat&kind=endpoint"},
		{"workspace", "x", ""}, {"api_key", "", ""},
	} {
		if got := tracesOf(test[0], test[1]).Encode(); got != test[2] {
			t.Errorf("%s %s: %s", test[0], test[1], got)
		}
	}
}
