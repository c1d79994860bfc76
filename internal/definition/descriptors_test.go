//go:build linux || darwin

package definition

import (
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// openFiles counts the descriptors of this process.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/dev/fd")
	must(t, err)
	return len(entries)
}

// TestNothingStaysOpen reads a workspace again and again. Not even the garbage
// collector may have to close open files.
func TestNothingStaysOpen(t *testing.T) {
	dir := workspace(t, map[string]string{
		"context.yaml": "", "prompts/a.yaml": simple, "prompts/b/c.yaml": simple, "prompts/b/d.yaml": simple, "endpoints/e.yaml": "prompt: a\n",
	})
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	before := openFiles(t)
	for range 20 {
		var errs document.Errors
		if d := readDirectory(dir, &errs); len(d.files) != 4 || errs.Len() > 0 {
			t.Fatalf("%d files, %v", len(d.files), errs.Err())
		}
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// TestWatchWithoutDescriptors: a process that may open no more files learns
// that it doesn't watch.
func TestWatchWithoutDescriptors(t *testing.T) {
	s, err := Open(workspace(t, map[string]string{"prompts/p.yaml": simple}))
	must(t, err)
	var limit syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	none := limit
	none.Cur = 3
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none))
	err = s.Watch()
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	if err == nil || !strings.Contains(err.Error(), "the directory can't be watched: ") {
		t.Errorf("got %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
