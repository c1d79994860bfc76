//go:build race

package rules

// raceEnabled reports whether the race detector is on. It has nothing to find where one
// goroutine decides, and makes that take many times as long: a smaller number of tables
// and rows does. Without it all are decided.
const raceEnabled = true
