//go:build !race

package rules

// raceEnabled reports whether the race detector is on.
const raceEnabled = false
