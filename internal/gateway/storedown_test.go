package gateway

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
)

// TestStoreIsDown checks that the store is down after it failed to open, or if opening
// takes longer than usual.
func TestStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stats := func(availability recorder.Availability, problem string) *recorder.Stats {
			return &recorder.Stats{Availability: availability, Since: time.Now(), LastError: problem}
		}
		for _, test := range []struct {
			stats       *recorder.Stats
			now, slowly bool // down at once, and after slowOpening
		}{
			{&recorder.Stats{}, false, false}, // not opening yet
			{stats(recorder.Opening, ""), false, true},
			{stats(recorder.Opening, "permission denied"), true, true},
			{stats(recorder.Failing, "disk full"), true, true},
			{stats(recorder.Available, ""), false, false},
			{stats(recorder.Available, "housekeeping failed"), false, false},
		} {
			if !test.stats.Since.IsZero() {
				test.stats.Since = time.Now()
			}
			if got := isDown(test.stats); got != test.now {
				t.Errorf("%+v: down %t", test.stats, got)
			}
			time.Sleep(slowOpening)
			if got := isDown(test.stats); got && !test.now {
				t.Errorf("%+v: down after %s already", test.stats, slowOpening)
			}
			time.Sleep(time.Nanosecond)
			if got := isDown(test.stats); got != test.slowly {
				t.Errorf("%+v: down %t after more than %s", test.stats, got, slowOpening)
			}
		}
	})
}
