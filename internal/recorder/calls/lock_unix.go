//go:build !windows

package calls

import (
	"errors"
	"os"
	"syscall"
)

// openLocked opens a file for this process alone. The lock goes with the process.
// It fails with errLocked while another has it.
func openLocked(path string, flags int) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, flags, 0o600)
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			if errors.Is(err, syscall.EWOULDBLOCK) {
				err = errLocked
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

// removeLocked removes a file that openLocked opened, and closes it. A file that is
// in its place meanwhile is another process's.
func removeLocked(file *os.File) error {
	if moved(file) {
		return file.Close()
	}
	return errors.Join(removed(os.Remove(file.Name())), file.Close())
}
