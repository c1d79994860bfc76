package limit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/journaltest"
	"github.com/cadenza-gateway/cadenza/internal/private"
)

// The second process counts in memory, starting from the counts of the first one. When the
// first one ends, the second has all counts of both.
func TestTwoProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "limits")
		now := time.Now()
		ask, other := Ask{daily, "a"}, Ask{daily, "b"}
		first := filed(t, path)
		mustReserve(t, first, now, Amounts{1, 100, 0}, ask).Settle(now, Amounts{1, 90, 0})
		open := mustReserve(t, first, now, Amounts{1, 50, 0}, ask)
		synctest.Wait()
		second := filed(t, path)
		if err := second.Err(); !errors.Is(err, private.ErrLocked) {
			t.Errorf("%v", err)
		}
		if got := used(second, now, ask, 0); got != "140+0" {
			t.Errorf("%s: what the first process has is not known", got)
		}
		held := mustReserve(t, second, now, Amounts{1, 7, 0}, ask)
		mustReserve(t, second, now, Amounts{1, 3, 0}, other).Settle(now, Amounts{1, 2, 0})
		mustReserve(t, first, now, Amounts{1, 3, 0}, ask).Settle(now, Amounts{1, 1, 0})
		open.Settle(now, Amounts{1, 20, 0})
		mustClose(t, first)
		time.Sleep(longestPause)
		synctest.Wait()
		if err := second.Err(); err != nil {
			t.Error(err)
		}
		if got := used(second, now, ask, 0); got != "111+7" {
			t.Error(got)
		}
		held.Settle(now, Amounts{1, 4, 0})
		if s := second.Stats(); s.Crashed != 0 {
			t.Errorf("%+v", s)
		}
		mustClose(t, second)
		third := filed(t, path)
		if got := used(third, now, ask, 0) + " " + used(third, now, other, 0); got != "115+0 2+0" {
			t.Error(got)
		}
		mustClose(t, third)
	})
}

// A file of another format stays as it is, and the limiter counts in memory.
func TestFileOfAnotherFormat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits")
	text := "CzL\x01 of another format"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	l := filed(t, path)
	mustReserve(t, l, now, Amounts{1, 10, 0}, Ask{daily, "a"}).Settle(now, Amounts{1, 10, 0})
	if got := used(l, now, Ask{daily, "a"}, 0); got != "10+0" {
		t.Error(got)
	}
	if err := l.Err(); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "another format") {
		t.Errorf("%v", err)
	}
	mustClose(t, l)
	if got := content(t, path); string(got) != text {
		t.Errorf("it became %q", got)
	}
}

// Err returns the error of an unusable path, and the limiter uses it as soon as it can.
func TestPathThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "folder")
		if err := os.WriteFile(folder, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		l := filed(t, filepath.Join(folder, "limits"))
		var path *fs.PathError
		if err := l.Err(); !errors.As(err, &path) {
			t.Errorf("%v", err)
		}
		mustReserve(t, l, now, Amounts{1, 10, 0}, Ask{daily, "a"}).Settle(now, Amounts{1, 10, 0})
		if err := os.Remove(folder); err != nil {
			t.Fatal(err)
		}
		time.Sleep(firstPause)
		synctest.Wait()
		if err := l.Err(); err != nil {
			t.Error(err)
		}
		mustClose(t, l)
		l = filed(t, filepath.Join(folder, "limits"))
		if got := used(l, now, Ask{daily, "a"}, 0); got != "10+0" {
			t.Error(got)
		}
		mustClose(t, l)
	})
}

// Counts that can be read are used if the files can't be written: one is no regular file,
// belongs to another user, or is on a read-only file system.
func TestFileThatCanOnlyBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "limits")
		now := time.Now()
		ask := Ask{daily, "a"}
		disk := new(journaltest.Disk)
		l := openOn(Options{Path: path}, disk.Options())
		mustReserve(t, l, now, Amounts{1, 30, 0}, ask).Settle(now, Amounts{1, 20, 0})
		mustReserve(t, l, now, Amounts{1, 5, 0}, ask)
		disk.Die(0)
		_, other := filesOf(t, path)
		mustClose(t, l)
		if err := errors.Join(os.Remove(other), os.Mkdir(other, 0o700)); err != nil {
			t.Fatal(err)
		}

		l = filed(t, path)
		var fault *fs.PathError
		if err := l.Err(); !errors.As(err, &fault) || fault.Path != other {
			t.Errorf("%v", err)
		}
		if got := used(l, now, ask, 0); got != "25+0" {
			t.Errorf("%s: what the file has is forgotten", got)
		}
		mustReserve(t, l, now, Amounts{1, 7, 0}, ask).Settle(now, Amounts{1, 7, 0})
		if err := os.Remove(other); err != nil {
			t.Fatal(err)
		}
		time.Sleep(longestPause)
		synctest.Wait()
		if err := l.Err(); err != nil {
			t.Error(err)
		}
		if got := used(l, now, ask, 0); got != "32+0" {
			t.Errorf("%s: what the file has counts twice, or not", got)
		}
		mustClose(t, l)
		l = filed(t, path)
		if got := used(l, now, ask, 0); got != "32+0" {
			t.Error(got)
		}
		mustClose(t, l)
	})
}
