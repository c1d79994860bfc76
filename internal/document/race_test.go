//go:build race

package document

// raceEnabled reports whether the race detector is on. It finds nothing while one
// goroutine reads megabytes, and makes that take ten times as long.
const raceEnabled = true
