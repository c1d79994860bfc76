package private

import (
	"errors"
	"io/fs"
	"os"
)

// ErrLocked is the error of OpenLocked for a file that another process has.
var ErrLocked = errors.New("another process uses the file")

// Moved reports whether a file is no longer at its path. A path that can't be looked
// at is no reason to think so.
func Moved(file *os.File) bool {
	_, err := os.Stat(file.Name())
	return errors.Is(err, fs.ErrNotExist) || err == nil && !isAt(file, file.Name())
}

// removed passes over the error for a file that is not there: its directory may be
// gone.
func removed(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// isAt reports whether a file is the one at a path.
func isAt(file *os.File, path string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(opened, there)
}
