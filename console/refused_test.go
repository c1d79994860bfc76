package console

import (
	"net/url"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// TestRefusedBars has hours, and days of a long time.
func TestRefusedBars(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 30, 0, 0, time.UTC)
	hours := []sqlite.RefusalHour{{Start: now.Truncate(time.Hour).Add(-25 * time.Hour), Count: 1}, {Start: now.Truncate(time.Hour).Add(-2 * time.Hour), Count: 2}, {Start: now.Truncate(time.Hour), Count: 4}}
	for _, test := range []struct {
		since  time.Time
		step   string
		bars   int
		height map[int]int
	}{
		{now.Add(-24 * time.Hour), "hour", 25, map[int]int{0: 0, 22: 30, 24: 60}},
		{time.Time{}, "hour", 26, map[int]int{0: 15, 23: 30, 25: 60}},
		{now.Add(-30 * day), "day", 31, map[int]int{29: 10, 30: 60}},
	} {
		step, bars := refusedBars(hours, test.since, now)
		if step != test.step || len(bars) != test.bars {
			t.Fatalf("%s: %s, %d", test.since, step, len(bars))
		}
		for at, want := range test.height {
			if bars[at].Height != want {
				t.Errorf("%s: bar %d is %d high, want %d", test.since, at, bars[at].Height, want)
			}
		}
	}
	if step, bars := refusedBars(nil, now, now); step != "" || bars != nil {
		t.Errorf("none: %s %v", step, bars)
	}
}

// TestNarrow keeps the other filters, and replaces one of the same field.
func TestNarrow(t *testing.T) {
	for since, want := range map[string]string{"7d": "code=a&since=7d", "": "code=a&since="} { // of all time, too
		v := &visit{query: url.Values{"since": {since}, "code": {"old"}}}
		p := &refusedPage{filter: v.filter(refusedFilters)}
		if link := p.Narrow("code", "a", "subject", ""); link != "/console/refused?"+want {
			t.Error(link)
		}
	}
}
