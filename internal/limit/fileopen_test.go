package limit

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/private"
)

// The second process counts in memory, from what the first one had counted, and has all
// of it when the first one ends.
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

func TestFileIsMovedOrDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "limits")
		now := time.Now()
		ask := Ask{daily, "a"}
		l := filed(t, path)
		spend := func() { mustReserve(t, l, now, Amounts{1, 10, 0}, ask).Settle(now, Amounts{1, 10, 0}) }
		spend()
		synctest.Wait()
		if err := os.Rename(path, path+".moved"); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(path + "-2"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookEvery)
		spend()
		spend()
		synctest.Wait()
		if err := l.Err(); err != nil {
			t.Error(err)
		}
		mustClose(t, l)
		l = filed(t, path)
		if got := used(l, now, ask, 0); got != "30+0" {
			t.Error(got)
		}
		mustClose(t, l)
	})
}

func TestUnknownVersionIsSetAside(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "limits")
	text := "CzL\x02 of another version"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	l := filed(t, path)
	mustReserve(t, l, now, Amounts{1, 10, 0}, Ask{daily, "a"}).Settle(now, Amounts{1, 10, 0})
	mustClose(t, l)
	aside, err := filepath.Glob(path + ".unknown-*")
	if err != nil || len(aside) != 1 {
		t.Fatal(aside, err)
	}
	if got, err := os.ReadFile(aside[0]); err != nil || string(got) != text {
		t.Errorf("%q, %v", got, err)
	}
	l = filed(t, path)
	if got := used(l, now, Ask{daily, "a"}, 0); got != "10+0" {
		t.Error(got)
	}
	mustClose(t, l)
}

// A path that can't be used at all is told, and used as soon as it can be.
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

// What can be read counts where the files can't be written: with one that is no file,
// of another user, or on a disk that is mounted to be read alone.
func TestFileThatCanOnlyBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "limits")
		now := time.Now()
		ask := Ask{daily, "a"}
		disk := new(mortal)
		l := openOn(Options{Path: path}, disk.disk())
		mustReserve(t, l, now, Amounts{1, 30, 0}, ask).Settle(now, Amounts{1, 20, 0})
		mustReserve(t, l, now, Amounts{1, 5, 0}, ask)
		disk.die(0)
		other := l.file.name(1 - l.file.used)
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

// A file that somebody empties while it is in use is written anew.
func TestFileIsTruncated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "limits")
		now := time.Now()
		ask := Ask{daily, "a"}
		var logged bytes.Buffer
		disk := new(mortal)
		l := openOn(Options{Path: path, Logger: slog.New(slog.NewTextHandler(&logged, nil))}, disk.disk())
		spend := func() { mustReserve(t, l, now, Amounts{1, 10, 0}, ask).Settle(now, Amounts{1, 10, 0}) }
		spend()
		written()
		if err := os.Truncate(l.file.name(l.file.used), 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookEvery)
		spend()
		written()
		if err := l.Err(); err != nil {
			t.Error(err)
		}
		disk.die(0)
		mustClose(t, l)
		l = filed(t, path)
		if got := used(l, now, ask, 0); got != "20+0" {
			t.Error(got)
		}
		if s := l.Stats(); s.Damaged != 0 {
			t.Errorf("%+v", s)
		}
		mustClose(t, l)
		if !strings.Contains(logged.String(), "emptied or overwritten") {
			t.Errorf("%s", logged.String())
		}
	})
}

// Of a file that ends within its header nothing is known. It is told, and used again.
func TestFileWithoutItsHeader(t *testing.T) {
	header := appendHeader(nil, 1, 42)
	for size := 1; size < len(header); size++ {
		path := filepath.Join(t.TempDir(), "limits")
		if err := os.WriteFile(path, header[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		var logged bytes.Buffer
		l := Open(Options{Path: path, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		if s := l.Stats(); s.Damaged != 1 || l.Err() != nil || !strings.Contains(logged.String(), "damaged records of limits were passed over") {
			t.Errorf("%d bytes: %+v, %v\n%s", size, s, l.Err(), logged.String())
		}
		mustClose(t, l)
		if l = filed(t, path); l.Stats().Damaged != 0 {
			t.Errorf("%d bytes: %+v when it was opened again", size, l.Stats())
		}
		mustClose(t, l)
	}
}
