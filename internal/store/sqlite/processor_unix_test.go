//go:build unix

package sqlite

import (
	"syscall"
	"testing"
)

// processorTime is what the process has used of the processors, in nanoseconds.
func processorTime(b testing.TB) int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}
