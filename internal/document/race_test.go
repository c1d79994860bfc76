//go:build race

package document

// raceEnabled reports whether the race detector is on. It has nothing to find where one
// goroutine reads one document after another, and makes that take ten times as long: a
// few documents do, and none of megabytes. Without it all are read.
const raceEnabled = true

// randomDocuments is how many random documents a test reads.
const randomDocuments = 1_000
