package gateway

import (
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/limit"
)

// TestFullAt has budgets that are used up before their windows end, and those that are not.
func TestFullAt(t *testing.T) {
	for _, test := range []struct {
		name           string
		length, passed time.Duration
		used           int64
		want           time.Duration // after the begin; 0: never
	}{
		{"half in a quarter of the day", 24 * time.Hour, 6 * time.Hour, 50, 12 * time.Hour},
		{"just not", 24 * time.Hour, 12 * time.Hour, 50, 0},
		{"just so", 24 * time.Hour, 12 * time.Hour, 51, 23*time.Hour + 31*time.Minute + 45*time.Second},
		{"too early to tell", 24 * time.Hour, time.Hour, 50, 0},
		{"used up", 24 * time.Hour, 6 * time.Hour, 100, 0},
		{"above it", 24 * time.Hour, 6 * time.Hour, 120, 0},
		{"unused", 24 * time.Hour, 6 * time.Hour, 0, 0},
		{"a minute", time.Minute, 30 * time.Second, 90, 0},
		{"a month", 0, 10 * 24 * time.Hour, 50, 20 * 24 * time.Hour},
		{"an hour", time.Hour, 30 * time.Minute, 75, 40 * time.Minute},
	} {
		began := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
		end := began.Add(test.length)
		if test.length == 0 {
			began = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
			end = began.AddDate(0, 1, 0)
		}
		s := &limit.Standing{Ceiling: limit.Ceiling{Measure: limit.Tokens, Most: 100, Window: limit.Window{Length: test.length}}, Used: test.used, Resets: end}
		got := fullAt(s, began.Add(test.passed))
		if want := began.Add(test.want); test.want == 0 && !got.IsZero() || test.want != 0 && !got.Equal(want) {
			t.Errorf("%s: %s, want %s", test.name, got, want)
		}
	}
}
