//go:build race

package trace

// raceEnabled reports that the race detector is on, under which pools drop values at
// random.
const raceEnabled = true
