//go:build !race

package invoke

// raceEnabled reports whether the race detector is on.
const raceEnabled = false
