//go:build !race

package bench

// raceEnabled tells that the race detector is on.
const raceEnabled = false
