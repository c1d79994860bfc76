package jsonlines

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"

	"github.com/cadenza-gateway/cadenza/internal/private"
	"github.com/cadenza-gateway/cadenza/sinks"
	"github.com/cadenza-gateway/cadenza/trace"
)

// File is a sink that appends to a file. A delivery is on stable storage when
// Deliver returns. File does not rotate the file. Another program may rename it, or
// copy and empty it, at any time: before each delivery File makes the file again if
// it is no longer under its name.
type File struct {
	// Logger is warned if others can read the file. Default: none.
	Logger *slog.Logger

	path   string
	file   *os.File // nil: not open
	buffer []byte
}

// NewFile returns a sink that has not opened the file yet. Missing directories
// are made, for the owner alone, and so is the file. A link is followed.
func NewFile(path string) (*File, error) {
	if path == "" {
		return nil, errors.New("the file has no name")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	return &File{path: path}, nil
}

// Resume implements [sinks.Sink].
func (f *File) Resume(_ context.Context, _ sinks.Source, kept trace.Position) (trace.Position, error) {
	return kept, f.open()
}

// Deliver implements [sinks.Sink]. It closes the file after an error: open then
// ends a line that was cut off.
func (f *File) Deliver(ctx context.Context, delivery *trace.Delivery) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	lines, err := appendLines(f.buffer[:0], delivery)
	if err != nil {
		return err
	}
	f.buffer = kept(lines)
	if err := f.open(); err != nil {
		return err
	}
	if len(lines) == 0 {
		return nil
	}
	if _, err = f.file.Write(lines); err == nil {
		err = f.file.Sync()
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	return nil
}

// Shared implements [sinks.Sink].
func (f *File) Shared() bool { return false }

// Close implements [sinks.Sink].
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	file := f.file
	f.file = nil
	return file.Close()
}

// open opens the file unless the one that is under its name is open.
func (f *File) open() error {
	info, err := os.Stat(f.path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file; for the standard output there is sink stdout", f.path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	missing := err != nil
	if f.file != nil {
		if opened, err := f.file.Stat(); err == nil && !missing && os.SameFile(info, opened) {
			return nil
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	dir := filepath.Dir(f.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(f.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if missing {
		private.RestrictFile(file)
	}
	if f.Logger != nil {
		private.Warn(f.Logger, f.path)
	}
	err = endLine(file)
	if err == nil && missing {
		err = syncDirectory(dir) // or a power cut may take the name
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.file = file
	return nil
}

// endLine ends a line that a crash or a full disk cut off.
func endLine(file *os.File) error {
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	var last [1]byte
	if _, err := file.ReadAt(last[:], info.Size()-1); err != nil {
		return err
	}
	if last[0] == '\n' {
		return nil
	}
	_, err = file.Write([]byte{'\n'})
	return err
}

func syncDirectory(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // directories can't be synced there
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

var _ sinks.Sink = (*File)(nil)
