//go:build race

package limit

// raceEnabled reports that the race detector is on: what fills a limiter by one goroutine
// takes long, and its bytes are others.
const raceEnabled = true
