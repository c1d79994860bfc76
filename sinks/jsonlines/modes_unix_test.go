//go:build unix

package jsonlines

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/modetest"
)

func TestModeWhateverTheUmask(t *testing.T) {
	modetest.UnderUmasks(t, func(path string) {
		file, err := NewFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time after a rotation
			if err := file.Deliver(t.Context(), delivery(1)); err != nil {
				t.Fatal(err)
			}
			modetest.Check(t, path)
			if err := os.Rename(path, path+".1"); err != nil {
				t.Fatal(err)
			}
		}
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestFileThatOthersCanRead is warned of once, whenever it is opened.
func TestFileThatOthersCanRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.jsonl")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	file, err := NewFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file.Logger = slog.New(slog.NewTextHandler(&log, nil))
	deliver := func(warnings int) {
		t.Helper()
		for range 2 {
			if err := file.Deliver(t.Context(), delivery(1)); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Count(log.String(), "chmod 600 "+path); got != warnings {
			t.Errorf("%d warnings, want %d: %s", got, warnings, &log)
		}
	}
	deliver(1)
	// Its successor is made by us, and the next by somebody else.
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	deliver(1)
	if err := os.Rename(path, path+".2"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o660); err != nil {
		t.Fatal(err)
	}
	deliver(2)
	if err := file.Close(); err != nil {
		t.Error(err)
	}
}
