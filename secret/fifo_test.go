//go:build unix

package secret

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// To open a FIFO waits for its writer: one is refused, and is no empty secret.
func TestFIFOIsNoSecret(t *testing.T) {
	name := filepath.Join(t.TempDir(), "key")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := Reference("{file." + name + "}").Resolve()
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil || errors.Is(err, ErrEmpty) || !strings.Contains(err.Error(), "not a regular file, this is a FIFO") {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("it waits for somebody to write the secret")
	}
}
