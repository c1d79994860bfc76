package limit

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/journal"
	"github.com/cadenza-gateway/cadenza/internal/journaltest"
)

// The pauses of the journal.
const (
	settleWait   = 10 * time.Millisecond
	firstPause   = time.Second
	longestPause = 16 * time.Second
)

// filed opens a limiter with a file.
func filed(t testing.TB, path string) *Limiter {
	t.Helper()
	l := Open(Options{Path: path})
	return l
}

// written waits, in a bubble of synctest, until the file has all counts.
func written() {
	time.Sleep(settleWait)
	synctest.Wait()
}

func mustClose(t testing.TB, l *Limiter) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

var (
	hourly = limitOf("hourly", Ceiling{Money, 1000, Window{time.Hour}}, Ceiling{Requests, 50, Month}, Ceiling{InFlight, 3, Window{}})
	daily  = limitOf("daily", Ceiling{Tokens, 1000, Window{24 * time.Hour}})
)

func TestStateOutlivesItsProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "folder", "limits")
		now := time.Now()
		asks := []Ask{{hourly, "ada"}, {daily, ""}}
		l := filed(t, path)
		mustReserve(t, l, now, Amounts{1, 500, 400}, asks...).Settle(now, Amounts{1, 300, 200})
		mustClose(t, l)

		disk := new(journaltest.Disk)
		l = openOn(Options{Path: path}, disk.Options())
		if got := used(l, now, asks[0], 0) + " " + used(l, now, asks[0], 1) + " " + used(l, now, asks[1], 0); got != "200+0 1+0 300+0" {
			t.Error(got)
		}
		r := mustReserve(t, l, now, Amounts{1, 100, 70}, asks...)
		if !r.More(now, Amounts{0, 11, 7}) {
			t.Error("there is no room for more")
		}
		r.Return(Amounts{0, 1, 0})
		mustReserve(t, l, now, Amounts{1, 10, 10}, asks...).Settle(now, Amounts{1, 5, 5})
		written()
		disk.Die(0)
		r.Settle(now, Amounts{})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}

		// Calls that had not ended count in full, and nothing stays set aside.
		for range 2 {
			l = filed(t, path)
			if got := used(l, now, asks[0], 0) + " " + used(l, now, asks[0], 1) + " " + used(l, now, asks[0], 2) + " " + used(l, now, asks[1], 0); got != "282+0 3+0 0+0 415+0" {
				t.Error(got)
			}
			if s := l.AppendStandings(nil, "w", now, asks[0])[0]; s.Crashed != 77 {
				t.Errorf("%+v", s)
			}
			if err := l.Err(); err != nil {
				t.Error(err)
			}
			mustClose(t, l)
		}
		l = filed(t, path)
		if s := l.Stats(); s.Crashed != 0 || s.Damaged != 0 || s.Subjects != 2 {
			t.Errorf("%+v: the crash is over", s)
		}
		// Windows that have ended are not written again.
		later := now.AddDate(0, 2, 0)
		time.Sleep(later.Sub(now))
		mustClose(t, l)
		l = filed(t, path)
		if s := l.Stats(); s.Subjects != 0 {
			t.Errorf("%+v", s)
		}
		mustClose(t, l)
	})
}

// A subject that was dropped and comes again has its latest counts.
func TestSubjectThatCameAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits")
	now := time.Now()
	l := filed(t, path)
	for i := range 60 {
		ask := Ask{daily, fmt.Sprint("s", i)}
		mustReserve(t, l, now, Amounts{1, 0, 0}, ask).Settle(now, Amounts{1, 0, 0})
		b := l.book("w", "daily", false)
		shard := l.shard(b, ask.Subject)
		if a := b.accounts[shard][ask.Subject]; !l.drop(a, now.UnixNano()) {
			t.Fatal("it counts something")
		}
		mustReserve(t, l, now, Amounts{1, 5, 0}, ask).Settle(now, Amounts{1, 5, 0})
	}
	mustClose(t, l)
	l = filed(t, path)
	for i := range 60 {
		if got := used(l, now, Ask{daily, fmt.Sprint("s", i)}, 0); got != "5+0" {
			t.Errorf("s%d: %s", i, got)
		}
	}
	mustClose(t, l)
}

// filesOf returns the file in use, and the empty one.
func filesOf(t testing.TB, path string) (used, other string) {
	t.Helper()
	if len(content(t, path)) == 0 {
		return path + "-2", path
	}
	return path, path + "-2"
}

func content(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// No call fails because the disk is full: the limiter counts in memory, Err returns the
// error, and the limiter writes all counts when there is space again.
func TestDiskThatIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "limits")
		now := time.Now()
		disk := new(journaltest.Disk)
		var logged bytes.Buffer
		l := openOn(Options{Path: path, Logger: slog.New(slog.NewTextHandler(&logged, nil))}, disk.Options())
		ask := Ask{daily, "a"}
		spend := func(at time.Time) {
			mustReserve(t, l, at, Amounts{1, 10, 0}, ask).Settle(at, Amounts{1, 10, 0})
			synctest.Wait()
		}
		spend(now)
		if err := l.Err(); err != nil {
			t.Fatal(err)
		}
		disk.Fail(syscall.ENOSPC)
		open := mustReserve(t, l, now, Amounts{1, 5, 0}, ask)
		spend(now)
		if err := l.Err(); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) {
			t.Errorf("%v", err)
		}
		time.Sleep(5 * longestPause) // tries that fail
		spend(now)
		if time.Since(now) != 5*longestPause {
			t.Error("calls waited for a disk that is full")
		}
		disk.Fail(nil)
		time.Sleep(longestPause)
		synctest.Wait()
		if err := l.Err(); err != nil {
			t.Error(err)
		}
		open.Settle(now, Amounts{1, 4, 0})
		spend(now)
		written()
		disk.Die(0)
		mustClose(t, l)
		again := filed(t, path)
		if got := used(again, now, ask, 0); got != "44+0" {
			t.Error(got)
		}
		mustClose(t, again)
		if got := strings.Count(logged.String(), "level=ERROR"); got != 1 || !strings.Contains(logged.String(), "kept again") {
			t.Errorf("%s", logged.String())
		}
	})
}

// A disk that hangs delays a call by 20 ms, and no call once it has hung for a second.
func TestDiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		disk := new(journaltest.Disk)
		l := openOn(Options{Path: filepath.Join(t.TempDir(), "limits")}, disk.Options())
		ask := Ask{daily, "a"}
		answer := disk.Hang()
		for range 100 {
			mustReserve(t, l, now, Amounts{1, 1, 0}, ask).Settle(now, Amounts{1, 1, 0})
		}
		if waited := time.Since(now); waited != 20*time.Millisecond+time.Second {
			t.Errorf("calls waited %s", waited)
		}
		if err := l.Err(); !errors.Is(err, journal.ErrHangs) {
			t.Error(err)
		}
		answer()
		synctest.Wait()
		if err := l.Err(); err != nil {
			t.Error(err)
		}
		mustClose(t, l)
	})
}
