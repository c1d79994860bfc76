//go:build race

package definition

// raceEnabled tells that memory is many times what it is otherwise.
const raceEnabled = true
