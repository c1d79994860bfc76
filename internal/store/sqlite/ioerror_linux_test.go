package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestWriteErrorReopensTheFile makes writes to the log fail, as those to a removed disk do.
// The file is opened again, and not set aside.
func TestWriteErrorReopensTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	var opened int
	r := recorder.New(recorder.Options{Open: func(ctx context.Context) (recorder.Store, error) {
		s, err := Open(ctx, Config{Path: path})
		if err != nil {
			return nil, err
		}
		opened++
		return s, nil
	}})
	defer func() {
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	r.Open()
	if _, err := r.TraceKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	authority := mustAuthority(t)
	before := authority.New(trace.KindPrompt, time.Now())
	waitFor(t, "metrics to be stored", func() bool { return r.Metrics(t.Context(), metricsOf(before)) == nil })

	breakWrites(t, path+"-wal")
	err := r.Metrics(t.Context(), metricsOf(authority.New(trace.KindPrompt, time.Now())))
	if !errors.Is(err, recorder.ErrUnavailable) || resultCode(err) != sqlite3.SQLITE_IOERR {
		t.Errorf("metrics that can't be written: %v", err)
	}
	after := authority.New(trace.KindPrompt, time.Now())
	waitFor(t, "metrics to be stored again", func() bool { return r.Metrics(t.Context(), metricsOf(after)) == nil })
	if got := countStored(t, path, []trace.ID{before, after}); got != 2 {
		t.Errorf("%d of 2 are stored", got)
	}
	if aside, _ := filepath.Glob(path + ".corrupt-*"); len(aside) > 0 || opened != 2 {
		t.Errorf("opened %d times, set aside: %q", opened, aside)
	}
}

// breakWrites replaces every descriptor that this process has of the file at path by a
// read-only file.
func breakWrites(t *testing.T, path string) {
	t.Helper()
	readOnly, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()
	want, err := readOnly.Stat()
	if err != nil {
		t.Fatal(err)
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("this system does not list its descriptors: %v", err)
	}
	broken := 0
	for _, entry := range open {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd == int(readOnly.Fd()) {
			continue
		}
		info, err := os.Stat(filepath.Join("/proc/self/fd", entry.Name()))
		if err != nil || !os.SameFile(info, want) {
			continue
		}
		if err := syscall.Dup3(int(readOnly.Fd()), fd, syscall.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		broken++
	}
	if broken == 0 {
		t.Fatal("nobody has the file open")
	}
}
