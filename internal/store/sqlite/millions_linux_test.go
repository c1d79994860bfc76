package sqlite

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// threadTime returns the processor time that the caller's thread has used.
func threadTime(t testing.TB) time.Duration {
	t.Helper()
	const thread = 1 // RUSAGE_THREAD
	var usage syscall.Rusage
	if err := syscall.Getrusage(thread, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// dropFromCache drops a file from the page cache, as after a start of the machine.
func dropFromCache(t testing.TB, path string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	const dontNeed = 4 // POSIX_FADV_DONTNEED
	if _, _, errno := syscall.Syscall6(syscall.SYS_FADVISE64, file.Fd(), 0, 0, dontNeed, 0, 0); errno != 0 {
		t.Fatal(errno)
	}
}
