//go:build race

package sqlite

import "flag"

const (
	raceEnabled = true
	fewer       = 5 // times fewer rounds of what is drawn or tried one by one
)

// With the race detector a random store takes five times as long, and the hundredth finds
// nothing that the twentieth did not. -rapid.checks sets another number.
func init() {
	if err := flag.Set("rapid.checks", "20"); err != nil {
		panic(err)
	}
}
