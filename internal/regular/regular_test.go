//go:build unix

package regular

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// within fails the test where f does not return, as to open a FIFO would not.
func within(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { f(); close(done) }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("it waits")
	}
}

// Whatever stands where a file should is refused at once, by its kind, and not
// opened; a file and a link to one are read.
func TestOnlyRegularFilesAreOpened(t *testing.T) {
	dir, err := os.MkdirTemp("", "r") // the name of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := syscall.Mkfifo(in("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(in("file"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"link": "file", "link to fifo": "fifo", "nowhere": "gone"} {
		if err := os.Symlink(target, in(link)); err != nil {
			t.Fatal(err)
		}
	}
	socket, err := net.Listen("unix", in("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, tt := range []struct {
		name, kind string
		err        error
	}{
		{"file", "", nil},
		{"link", "", nil},
		{"fifo", "a FIFO", ErrNotRegular},
		{"link to fifo", "a FIFO", ErrNotRegular},
		{"socket", "a socket", ErrNotRegular},
		{".", "a folder", ErrNotRegular},
		{"nowhere", "", fs.ErrNotExist},
		{"gone", "", fs.ErrNotExist},
	} {
		within(t, func() {
			for _, open := range []func() (*os.File, error){
				func() (*os.File, error) { return Open(in(tt.name)) },
				func() (*os.File, error) { return OpenIn(root, tt.name) },
			} {
				f, err := open()
				if !errors.Is(err, tt.err) || err != nil && !strings.Contains(err.Error(), tt.kind) {
					t.Errorf("%s: %v", tt.name, err)
				}
				if (f == nil) != (tt.err != nil) {
					t.Errorf("%s: opened %v, error %v", tt.name, f, err)
				}
				if f != nil {
					_ = f.Close()
				}
			}
		})
	}
	within(t, func() {
		if _, err := Open(os.DevNull); !errors.Is(err, ErrNotRegular) || !strings.Contains(err.Error(), "a device") {
			t.Errorf("a device: %v", err)
		}
	})
}

// What takes a file's place after it was looked at neither holds up nor is
// taken for it.
func TestWhatTakesTheFilesPlace(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	stat := func(name string) (fs.FileInfo, error) {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(name)
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
		return info, err
	}
	within(t, func() {
		if f, err := open(name, stat, os.OpenFile); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%v, %v", f, err)
		}
	})
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	if err := os.WriteFile(name, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, read := range []func(most int64) ([]byte, error){
		func(most int64) ([]byte, error) { return ReadFile(name, most) },
		func(most int64) ([]byte, error) { return ReadFileIn(root, "f", most) },
	} {
		if data, err := read(5); string(data) != "12345" || err != nil {
			t.Errorf("%q, %v", data, err)
		}
		if data, err := read(4); data != nil || err == nil || !strings.Contains(err.Error(), "larger than 4 bytes") {
			t.Errorf("%q, %v", data, err)
		}
	}
	if data, err := ReadFileIn(root, "gone", 5); data != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%q, %v", data, err)
	}
}
