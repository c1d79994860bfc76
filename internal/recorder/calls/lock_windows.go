package calls

import (
	"errors"
	"os"
	"syscall"
)

// errSharing is Windows' ERROR_SHARING_VIOLATION.
const errSharing = syscall.Errno(32)

// openLocked opens a file for this process alone: it shares the file with no
// other. It fails with errLocked while another has it.
func openLocked(path string, flags int) (*os.File, error) {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	how := uint32(syscall.OPEN_EXISTING)
	if flags&os.O_CREATE != 0 {
		how = syscall.OPEN_ALWAYS
	}
	handle, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, 0, nil, how, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if errors.Is(err, errSharing) {
		return nil, errLocked
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(handle), path), nil
}

// removeLocked removes a file that openLocked opened, and closes it. Windows
// removes none that is open.
func removeLocked(file *os.File) error {
	return errors.Join(file.Close(), removed(os.Remove(file.Name())))
}
