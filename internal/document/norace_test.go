//go:build !race

package document

// raceEnabled reports whether the race detector is on.
const raceEnabled = false

// randomDocuments is how many random documents a test reads.
const randomDocuments = 20_000
