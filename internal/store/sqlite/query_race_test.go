//go:build race

package sqlite

import (
	"flag"
	"testing"
)

const (
	raceEnabled = true
	fewer       = 5 // times fewer rounds of what is drawn or tried one by one
)

// alone skips a test of many rows that one goroutine writes and reads.
func alone(t *testing.T) { t.Skip("one goroutine writes and reads: it takes long and races with none") }

// With the race detector a random store takes five times as long, and the hundredth finds
// nothing that the twentieth did not. -rapid.checks sets another number.
func init() {
	if err := flag.Set("rapid.checks", "20"); err != nil {
		panic(err)
	}
}
