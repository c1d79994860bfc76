package limit

import (
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// A settlement waits for the next reservation, 10 ms at most. A crash before it is
// written counts all that was set aside.
func TestSettlementIsWritten(t *testing.T) {
	ask, other := Ask{daily, "a"}, Ask{daily, "b"}
	for name, test := range map[string]struct {
		used int64
		then func(l *Limiter, now time.Time) // before a crash; nil: there is none
		want string                          // counts afterwards; 100 were set aside
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
				disk := new(mortal)
				l := openOn(Options{Path: path}, disk.disk())
				// The time of an earlier settlement is over, and has no part in it.
				mustReserve(t, l, now, Amounts{1, 1, 0}, other).Settle(now, Amounts{1, 1, 0})
				written()
				mustReserve(t, l, now, Amounts{1, 100, 0}, ask).Settle(now, Amounts{1, test.used, 0})
				if test.then != nil {
					test.then(l, now)
					disk.die(0)
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

// Many calls that end together, as those of a provider that fails, don't wait until
// what is unwritten is too much to be kept.
func TestManySettlements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		l := filed(t, filepath.Join(t.TempDir(), "limits"))
		var all []*Reservation
		for i := range 3000 {
			all = append(all, mustReserve(t, l, now, Amounts{1, 1, 0}, Ask{daily, fmt.Sprint(i)}))
		}
		synctest.Wait()
		for _, r := range all {
			r.Settle(now, Amounts{1, 1, 0})
		}
		synctest.Wait()
		l.file.mu.Lock()
		left := len(l.file.out)
		l.file.mu.Unlock()
		if left > muchUnwritten {
			t.Errorf("%d bytes wait", left)
		}
		mustClose(t, l)
	})
}
