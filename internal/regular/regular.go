// Package regular opens regular files only, in places where other users may put
// files. To open a FIFO waits for its writer, perhaps for ever, and to open a
// device may have an effect.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrNotRegular is wrapped by the error for what is no regular file.
var ErrNotRegular = errors.New("not a regular file")

// Open opens a regular file for reading. Links are followed. Anything else, also a
// folder, is not opened: the error is an *fs.PathError that says what it is. Where
// something else replaces the file between the check and the opening, it is opened
// without waiting and closed again.
func Open(path string) (*os.File, error) {
	return open(path, os.Stat, os.OpenFile)
}

// OpenIn is Open for a file below root.
func OpenIn(root *os.Root, name string) (*os.File, error) {
	return open(name, root.Stat, root.OpenFile)
}

func open(name string, stat func(string) (fs.FileInfo, error), openFile func(string, int, fs.FileMode) (*os.File, error)) (*os.File, error) {
	info, err := stat(name)
	if err != nil {
		return nil, err
	}
	if err := check(name, info); err != nil {
		return nil, err
	}
	f, err := openFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = check(name, info)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// check returns an error for anything but a regular file.
func check(name string, info fs.FileInfo) error {
	mode := info.Mode()
	what := ""
	switch {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		what = "a folder"
	case mode&fs.ModeNamedPipe != 0:
		what = "a FIFO"
	case mode&fs.ModeSocket != 0:
		what = "a socket"
	case mode&fs.ModeDevice != 0:
		what = "a device"
	default:
		what = "something else"
	}
	return &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("%w, this is %s", ErrNotRegular, what)}
}

// ReadFile reads a regular file of at most so many bytes. A larger one is an error,
// even where its size changes while it is read.
func ReadFile(path string, most int64) ([]byte, error) {
	f, err := Open(path)
	return readAll(f, err, path, most)
}

// ReadFileIn is ReadFile for a file below root.
func ReadFileIn(root *os.Root, name string, most int64) ([]byte, error) {
	f, err := OpenIn(root, name)
	return readAll(f, err, name, most)
}

// readAll reads and closes the file that Open or OpenIn returned.
func readAll(f *os.File, err error, name string, most int64) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("larger than %d bytes", most)}
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

// ReplaceFile replaces a file's content at once, so that a gateway that watches
// the file never reads half of it. A symbolic link stays one.
func ReplaceFile(file string, content []byte) error {
	path, err := filepath.EvalSymlinks(file)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), ".cadenza-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // fails after the rename
	_, err = temporary.Write(content)
	err = errors.Join(err, temporary.Chmod(info.Mode().Perm()), temporary.Sync(), temporary.Close())
	if err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}
