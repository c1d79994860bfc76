//go:build unix

package definition

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ends fails the test where f does not return.
func ends[T any](t *testing.T, what string, f func() T) T {
	t.Helper()
	done := make(chan T, 1)
	go func() { done <- f() }()
	select {
	case result := <-done:
		return result
	case <-time.After(time.Minute):
		t.Fatalf("%s does not end", what)
		panic("unreachable")
	}
}

// A file that is not regular is refused without being opened, wherever it
// stands; once it is replaced by one, loading goes on.
func TestOnlyRegularFiles(t *testing.T) {
	files := map[string]string{
		"context.yaml": "fields: { a: { type: string } }\n", "prompts/p.yaml": simple, "remoteconfigs/deep/c.yaml": "type: string\ndefault: x\n",
	}
	kinds := map[string]func(name string) error{
		"a FIFO": func(name string) error { return syscall.Mkfifo(name, 0o600) },
		"a socket": func(name string) error {
			s, err := net.ListenUnix("unix", &net.UnixAddr{Name: name})
			if err == nil {
				s.SetUnlinkOnClose(false)
				err = s.Close()
			}
			return err
		},
	}
	for name := range files {
		for kind, put := range kinds {
			dir, err := os.MkdirTemp("", "d") // the name of a socket is short
			must(t, err)
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			for name, text := range files {
				write(t, filepath.Join(dir, name), text)
			}
			path := filepath.Join(dir, filepath.FromSlash(name))
			s, err := Open(dir)
			must(t, err)
			first := s.Snapshot()
			must(t, os.Remove(path))
			must(t, put(path))
			err = ends(t, "reading "+kind+" as "+name, s.Reload)
			if err == nil || !strings.Contains(err.Error(), path+":1:1: ") || !strings.Contains(err.Error(), "not a regular file, this is "+kind) {
				t.Errorf("%s as %s: %v", kind, name, err)
			}
			if s.Snapshot() != first {
				t.Errorf("%s as %s: the last good set is not served", kind, name)
			}
			if _, err := ReadDataModel(dir); name == "context.yaml" && err == nil {
				t.Errorf("the data model is read from %s", kind)
			}
			must(t, os.Remove(path))
			write(t, path, files[name]+"# mended\n")
			if err := ends(t, "the reload after "+kind, s.Reload); err != nil {
				t.Errorf("after %s as %s: %v", kind, name, err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// A workspace's directory, and a folder of it, may be replaced by a FIFO, too.
func TestFIFOAsFolder(t *testing.T) {
	dir := workspace(t, map[string]string{"prompts/p.yaml": simple})
	for _, folder := range []string{"prompts", ""} {
		path := filepath.Join(dir, folder)
		must(t, os.RemoveAll(path))
		must(t, syscall.Mkfifo(path, 0o600))
		err := ends(t, "reading "+path, func() error {
			_, err := Load(dir)
			return err
		})
		if err == nil || !strings.Contains(err.Error(), path+": ") {
			t.Errorf("a FIFO as %s: %v", path, err)
		}
	}
}
