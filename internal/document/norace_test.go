//go:build !race

package document

// raceEnabled reports whether the race detector is on.
const raceEnabled = false
