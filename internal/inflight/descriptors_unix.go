//go:build unix

package inflight

import (
	"math"
	"syscall"
)

// Descriptors returns how many descriptors the process may hold. Go raised the
// limit to its maximum when the process started.
func Descriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return unlimited
	}
	// No limit is the largest number of a type that differs between systems.
	return int(min(limit.Cur, math.MaxInt32))
}
