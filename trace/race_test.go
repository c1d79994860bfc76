//go:build race

package trace

// raceEnabled tells that pools drop what they hold, as they do under the race
// detector.
const raceEnabled = true
