//go:build unix

package inflight

import (
	"math"
	"syscall"
)

// Descriptors is how many descriptors the process may hold. Go has raised that
// limit as far as it goes when the process started.
func Descriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return unlimited
	}
	// Infinity is the largest number of a type that systems differ on.
	return int(min(limit.Cur, math.MaxInt32))
}
