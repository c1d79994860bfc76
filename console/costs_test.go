package console

import (
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// TestMonth expects of a month what its sum and the pace of the last days say.
func TestMonth(t *testing.T) {
	now := time.Date(2026, 11, 5, 12, 0, 0, 0, time.UTC)
	stats := func(costs map[int]float64) *adminapi.Stats {
		var s adminapi.Stats
		for days, cost := range costs { // of two definitions
			start := now.Truncate(day).AddDate(0, 0, -days)
			s.Rows = append(s.Rows, sqlite.StatsRow{Start: start, Key: "a", Cost: cost / 2}, sqlite.StatsRow{Start: start, Key: "b", Cost: cost / 2})
		}
		return &s
	}
	for name, test := range map[string]struct {
		costs               map[int]float64
		sum, pace, expected float64
		over                int
	}{
		"nothing":           {},
		"today alone":       {map[int]float64{0: 5}, 5, 0, 5, 0},
		"since three days":  {map[int]float64{0: 1, 1: 4, 3: 2}, 7, 2, 7 + 2*25.5, 3},
		"of October, too":   {map[int]float64{0: 1, 4: 3, 5: 100, 7: 30, 8: 1000}, 4, 19, 4 + 19*25.5, 7},
		"a day of the past": {map[int]float64{20: 5}, 0, 0, 0, 0},
	} {
		m := newMonth(stats(test.costs), now)
		if m.Name != "November" || len(m.Days) != 30 || m.Sum != test.sum || m.Pace != test.pace || m.Expected != test.expected || m.Over != test.over {
			t.Errorf("%s: %+v", name, m)
		}
		if test.pace > 0 && (m.Bars[4].Class != "strong" || m.Bars[5].Class != "expected" || m.Bars[29].Height == 0 || m.Days[5].Past) {
			t.Errorf("%s: %+v", name, m.Bars)
		}
	}
}

// TestTracesOfCosts links rows to their traces.
func TestTracesOfCosts(t *testing.T) {
	p := &costsPage{Since: "7d"}
	for _, test := range []struct {
		by   map[string]string
		want string
	}{
		{map[string]string{"model": "gpt & co"}, "/console/traces?kind=endpoint&model=gpt+%26+co&since=7d"},
		{map[string]string{"metadata.customer": "a=b"}, "/console/traces?kind=endpoint&metadata=customer%3Da%3Db&since=7d"},
		{map[string]string{"variant": "en", "key": "chat"}, "/console/traces?arm=en&key=chat&kind=endpoint&since=7d"},
		{map[string]string{"day": "2026-11-30"}, "/console/traces?kind=endpoint&since=2026-11-30&until=2026-12-01"},
		{map[string]string{"endpoint_variant": "x"}, ""},
		{map[string]string{"metadata.a": "1", "metadata.b": "2"}, ""},
		{nil, ""},
	} {
		if got := p.TracesOf(test.by); got != test.want {
			t.Errorf("%v: %s, want %s", test.by, got, test.want)
		}
	}
}

// TestBudget expects of a window what was used in its part that has passed.
func TestBudget(t *testing.T) {
	began := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	use := limitRow{LimitUse: gateway.LimitUse{Used: 3, Since: began, Resets: began.Add(day)}}
	if b := newBudget(use, began.Add(6*time.Hour)); b.Expected != 12 {
		t.Errorf("%+v", b)
	}
	if b := newBudget(use, began.Add(time.Hour)); b.Expected != 0 {
		t.Errorf("too early: %+v", b)
	}
}
