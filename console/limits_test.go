package console

import (
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gateway"
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

// TestRefusedByLimits counts what limits refused, of all subjects and of one, on the page.
func TestRefusedByLimits(t *testing.T) {
	p := &limitsPage{
		Limits:  []gateway.LimitStatus{{LimitShare: gateway.LimitShare{Name: "fair"}, Fullest: []gateway.LimitUse{{Subject: "web"}}}},
		Refused: []sqlite.RefusalRow{{Limit: "fair", Subject: "web", Count: 3}, {Limit: "fair", Subject: "app", Count: 4}, {Limit: "other", Subject: "web", Count: 9}},
	}
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, "limits.main", p); err != nil {
		t.Fatal(err)
	}
	for _, shows := range []string{`<data value="3">3</data></td></tr>`, `limit=fair"><data value="7">7</data>`} {
		if !strings.Contains(b.String(), shows) {
			t.Errorf("lacks %s: %s", shows, &b)
		}
	}
}

// TestSubjects names the subject of a nearly used limit, also those who have no value.
func TestSubjects(t *testing.T) {
	for by, want := range map[string]string{"workspace": "fair</b>, all: 90 %", "metadata.customer": "fair</b>, without a value: 90 %"} {
		p := &nowPage{Limits: []limitRow{{"fair", by, gateway.LimitUse{Percent: 90}}}, Staves: newStaves(lastHour, nil, nil, time.Time{})}
		var b strings.Builder
		if err := templates.ExecuteTemplate(&b, "now.main", p); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("by %s: %s %v", by, &b, err)
		}
	}
}
