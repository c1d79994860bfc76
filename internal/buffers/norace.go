//go:build !race

package buffers

// Poisoned reports whether memory is overwritten before it is kept, so that tests
// notice a use of it afterwards.
const Poisoned = false
