//go:build !unix

package limit

// processorTime returns 0: the CPU time of the process is read on Unix only.
func processorTime() int64 { return 0 }
