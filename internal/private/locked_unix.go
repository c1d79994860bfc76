//go:build !windows

package private

import (
	"errors"
	"os"
	"syscall"
)

// OpenLocked opens a file for this process alone. The lock ends with the process. It fails
// with ErrLocked while another process has the file.
func OpenLocked(path string, flags int) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, flags, 0o600)
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			if errors.Is(err, syscall.EWOULDBLOCK) {
				err = ErrLocked
			}
			return nil, errors.Join(err, file.Close())
		}
		if isAt(file, path) {
			return file, nil
		}
		// It was removed before it was locked.
		if err := file.Close(); err != nil {
			return nil, err
		}
	}
}

// RemoveLocked removes a file that OpenLocked opened, and closes it. If another file is at
// its path by now, that one is another process's and stays.
func RemoveLocked(file *os.File) error {
	if Moved(file) {
		return file.Close()
	}
	return errors.Join(removed(os.Remove(file.Name())), file.Close())
}
