package private

import (
	"errors"
	"io/fs"
	"os"
)

// ErrLocked is the error of OpenLocked for a file that another process has open.
var ErrLocked = errors.New("another process uses the file")

// Moved reports whether a file is no longer at its path. It returns false if the path can't
// be examined.
func Moved(file *os.File) bool {
	_, err := os.Stat(file.Name())
	return errors.Is(err, fs.ErrNotExist) || err == nil && !isAt(file, file.Name())
}

// removed ignores the error for a missing file: its directory may be gone.
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
	current, err := os.Stat(path)
	return err == nil && os.SameFile(opened, current)
}
