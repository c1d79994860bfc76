//go:build unix

package modetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

const variable = "CADENZA_TEST_UMASK"

// UnderUmasks runs check once under each of three odd umasks. Path names no
// file yet. A process has one umask, so each is a process of its own, which runs
// the test that calls UnderUmasks again.
func UnderUmasks(t *testing.T, check func(path string)) {
	t.Helper()
	if umask, path, ok := strings.Cut(os.Getenv(variable), " "); ok {
		mask, err := strconv.ParseInt(umask, 8, 0)
		if err != nil {
			t.Fatal(err)
		}
		syscall.Umask(int(mask))
		check(path)
		return
	}
	var wait sync.WaitGroup
	defer wait.Wait()
	for _, umask := range []string{"0", "777", "277"} {
		process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		process.Env = append(os.Environ(), variable+"="+umask+" "+filepath.Join(t.TempDir(), "a"))
		wait.Go(func() {
			if output, err := process.CombinedOutput(); err != nil {
				t.Errorf("umask %s: %v\n%s", umask, err, output)
			}
		})
	}
}

// Check checks the modes of files.
func Check(t testing.TB, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
}
