package limit

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/journaltest"
)

// A settlement is written with the next reservation, after 10 ms at the latest. A crash
// before that counts the whole amount set aside.
func TestSettlementIsWritten(t *testing.T) {
	ask, other := Ask{daily, "a"}, Ask{daily, "b"}
	for name, test := range map[string]struct {
		used int64
		then func(l *Limiter, now time.Time) // before a crash; nil: there is none
		want string                          // the counts afterwards; 100 were set aside
	}{
		"not at once":            {60, func(*Limiter, time.Time) { synctest.Wait() }, "100+0"},
		"not before its time":    {60, func(*Limiter, time.Time) { time.Sleep(settleWait - 1); synctest.Wait() }, "100+0"},
		"in time":                {60, func(*Limiter, time.Time) { written() }, "60+0"},
		"with a reservation":     {60, func(l *Limiter, now time.Time) { mustReserve(t, l, now, Amounts{1, 7, 0}, other) }, "60+0"},
		"with more of one":       {60, func(l *Limiter, now time.Time) { mustReserve(t, l, now, Amounts{}, other).More(now, Amounts{0, 7, 0}) }, "60+0"},
		"when it is closed":      {60, nil, "60+0"},
		"all that was set aside": {100, func(*Limiter, time.Time) { written() }, "100+0"},
		"at once where it is more than was set aside": {101, func(*Limiter, time.Time) { synctest.Wait() }, "101+0"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "limits")
				now := time.Now()
				disk := new(journaltest.Disk)
				l := openOn(Options{Path: path}, disk.Options())
				// An earlier settlement, whose time is over, must not matter.
				mustReserve(t, l, now, Amounts{1, 1, 0}, other).Settle(now, Amounts{1, 1, 0})
				written()
				mustReserve(t, l, now, Amounts{1, 100, 0}, ask).Settle(now, Amounts{1, test.used, 0})
				if test.then != nil {
					test.then(l, now)
					disk.Die(0)
				}
				mustClose(t, l)
				l = filed(t, path)
				if got := used(l, now, ask, 0); got != test.want {
					t.Errorf("%s, want %s", got, test.want)
				}
				mustClose(t, l)
			})
		})
	}
}
