//go:build unix

package sqlite

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/modetest"
)

func TestModesWhateverTheUmask(t *testing.T) {
	t.Parallel()
	modetest.UnderUmasks(t, func(path string) {
		s := mustOpen(t, Config{Path: path})
		modetest.Check(t, path, path+"-wal", path+"-shm")
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestFilesThatOthersCanRead checks that opening them logs a warning, and that a damaged
// one does not stay readable.
func TestFilesThatOthersCanRead(t *testing.T) {
	t.Parallel()
	for mode, warned := range map[fs.FileMode]bool{0o600: false, 0o700: false, 0o640: true, 0o604: true, 0o620: true, 0o666: true} {
		path := filepath.Join(t.TempDir(), "a b.db")
		if err := mustOpen(t, Config{Path: path}).Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(t.TempDir(), "link.db")
		if err := os.Symlink(path, link); err != nil {
			t.Fatal(err)
		}
		log := new(logBuffer)
		s := mustOpen(t, Config{Path: link, Logger: slog.New(slog.NewTextHandler(log, nil))})
		want := "chmod 600 '" + path + "' '" + path + "-wal' '" + path + "-shm'"
		if got := strings.Count(log.String(), want); got != map[bool]int{true: 1}[warned] {
			t.Errorf("mode %o is warned of %d times: %s", mode, got, log)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	path := filepath.Join(t.TempDir(), "a.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	var aside string
	mustOpen(t, Config{Path: path, OnSetAside: func(name string) { aside = name }})
	modetest.Check(t, path, path+"-wal", path+"-shm", aside)
}
