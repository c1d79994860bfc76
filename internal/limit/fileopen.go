package limit

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/private"
)

const (
	// largestFile bounds a file that is read, in bytes: several times what a million
	// subjects take.
	largestFile = 1 << 30

	// lookEvery is the least time between two looks for the files at their paths.
	lookEvery = time.Second
)

var (
	errMoved       = errors.New("it was moved or deleted")
	errOverwritten = errors.New("it was emptied or overwritten")
)

// disk is what a file does to those of the operating system. Tests have others.
type disk struct {
	write    func(file *os.File, text []byte, at int64) error
	truncate func(file *os.File, size int64) error
	sync     func(file *os.File) error
}

var osDisk = disk{
	write: func(file *os.File, text []byte, at int64) error {
		_, err := file.WriteAt(text, at)
		return err
	},
	truncate: (*os.File).Truncate,
	sync:     (*os.File).Sync,
}

// name returns the path of the first or the second file.
func (f *file) name(i int) string {
	path := f.path
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if i == 0 {
		return path
	}
	return path + "-2"
}

// open opens both files and counts what they have, the first time. A file of a version
// that this one does not know is set aside.
func (f *file) open() error {
	if err := os.MkdirAll(filepath.Dir(f.name(0)), 0o700); err != nil {
		return err
	}
	var states [2]*state
	for i := range f.files {
		var err error
		if states[i], err = f.read(i); err != nil {
			if !f.mine && f.before == nil {
				f.peek()
			}
			return errors.Join(err, f.shut())
		}
	}
	private.Warn(f.logger, f.name(0), f.name(1))
	f.used = newest(states)
	f.generation = max(states[0].generation, states[1].generation, f.generation)
	if !f.mine {
		f.merge(states[f.used], true)
		f.mine, f.before = true, nil
	}
	return nil
}

// newest returns which of two files has the counters: the one with all accounts, and of
// two the later one.
func newest(states [2]*state) int {
	a, b := states[0], states[1]
	if a.whole != b.whole && b.whole || a.whole == b.whole && b.generation > a.generation {
		return 1
	}
	return 0
}

// read opens one of the files and reads it.
func (f *file) read(i int) (*state, error) {
	path := f.name(i)
	for {
		file, err := private.OpenLocked(path, os.O_RDWR|os.O_CREATE)
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(io.LimitReader(file, largestFile))
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		if known(text) {
			if len(text) == 0 {
				private.RestrictFile(file)
			}
			f.files[i] = file
			return readState(text), nil
		}
		aside := path + ".unknown-" + time.Now().UTC().Format("20060102T150405.000Z")
		if err := errors.Join(file.Close(), os.Rename(path, aside)); err != nil {
			return nil, err
		}
		f.logger.Error("a file of limits is damaged at its beginning, or of another version; set aside, and counting from zero", "file", path, "as", aside)
	}
}

// known reports whether a file is of this version, or has nothing that it could be told
// by.
func known(text []byte) bool {
	return len(text) <= len(fileMark) || string(text[:len(fileMark)]) == fileMark && text[len(fileMark)] == version
}

// look looks once in a second whether the files are at their paths, and still those that
// this process writes: no later process would find what is added to others.
func (f *file) look() {
	now := time.Now()
	if now.Before(f.lookAt) {
		return
	}
	f.lookAt = now.Add(lookEvery)
	switch {
	case private.Moved(f.files[0]) || private.Moved(f.files[1]):
		f.lose(errMoved)
		if err := f.shut(); err != nil {
			f.logger.Warn("closing a file of limits that was moved or deleted", "file", f.path, "error", err)
		}
	case f.overwritten():
		f.lose(errOverwritten)
	default:
		return
	}
	f.retry()
}

// overwritten reports whether the file in use no longer begins as this process began it.
// One that was emptied begins with zeros since the next write.
func (f *file) overwritten() bool {
	var header [headerSize]byte
	_, err := f.files[f.used].ReadAt(header[:], 0)
	return (err == nil || errors.Is(err, io.EOF)) && !bytes.Equal(header[:], f.header)
}

// shut closes the files.
func (f *file) shut() error {
	var errs []error
	for i, file := range f.files {
		if file != nil {
			errs = append(errs, file.Close())
			f.files[i] = nil
		}
	}
	return errors.Join(errs...)
}
