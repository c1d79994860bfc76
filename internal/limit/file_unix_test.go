//go:build unix

package limit

import (
	"syscall"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/modetest"
)

func TestFileIsPrivate(t *testing.T) {
	modetest.UnderUmasks(t, func(path string) {
		l := filed(t, path)
		mustClose(t, l)
		modetest.Check(t, path, path+"-2")
	})
}

// processorTime returns the CPU time of the process, in nanoseconds.
func processorTime() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}
