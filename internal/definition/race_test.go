//go:build race

package definition

// raceEnabled reports that memory and time are many times the usual. The
// detector has something to find where the workers of a loading have many files, and
// nothing more in a file of megabytes than in a small one.
const raceEnabled = true
