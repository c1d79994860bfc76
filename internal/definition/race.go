//go:build race

package definition

// The race detector makes every step take many times as long. This file is no test,
// so that the tests of other packages, which load large definitions too, have it.
func init() { longestLoad = 10 * LoadTimeout }
