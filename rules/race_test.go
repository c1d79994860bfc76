//go:build race

package rules

import "testing"

// raceEnabled reports whether the race detector is on. It has nothing to find where one
// goroutine decides, and makes that take many times as long: a smaller number of tables
// and rows does. Without it all are decided.
const raceEnabled = true

// alone skips a test that decides by one goroutine, a great many times.
func alone(t *testing.T) {
	t.Skip("one goroutine decides: it takes long and races with none")
}
