//go:build unix

package gateway

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestKeysFileOfAnotherKind checks that a pipe is refused without opening it, because
// opening would block.
func TestKeysFileOfAnotherKind(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "keys.json")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, filepath.Dir(pipe), "/dev/zero"} {
		if _, _, err := (&keysFile{path: path}).read(); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
