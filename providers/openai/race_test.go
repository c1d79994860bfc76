//go:build race

package openai

// raceEnabled reports whether the race detector is on.
const raceEnabled = true
