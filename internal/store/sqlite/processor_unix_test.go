//go:build unix

package sqlite

import (
	"syscall"
	"testing"
)

// processorTime returns the processor time that the process has used, in nanoseconds.
func processorTime(b testing.TB) int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}
