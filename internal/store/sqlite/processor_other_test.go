//go:build !unix

package sqlite

import "testing"

func processorTime(b testing.TB) int64 {
	b.Skip("what the process has used of the processors is read on Unix")
	return 0
}
