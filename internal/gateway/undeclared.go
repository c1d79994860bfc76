package gateway

import (
	"strconv"

	"github.com/cadenza-gateway/cadenza/internal/prompt"
)

const (
	// shownUndeclared is how many undeclared variables a note names.
	shownUndeclared = 5
	// triedUndeclared is how many of them the search for such names looks at. A request
	// may have thousands of undeclared variables for each key.
	triedUndeclared = 16
	// shownName bounds a name in a note, in bytes.
	shownName = 64
)

// undeclaredNote returns the note of n variables that a prompt does not declare,
// with the first names: "3 undeclared variables: compny, qestion, …". It leaves out names
// that no variable may have: they may be anything that a caller sent, such as a
// customer's address.
func undeclaredNote(n int, names [][]byte) string {
	var room [128]byte
	note := strconv.AppendInt(room[:0], int64(n), 10)
	note = append(note, " undeclared variable"...)
	if n != 1 {
		note = append(note, 's')
	}
	shown := 0
	for _, name := range names {
		if shown == shownUndeclared || len(name) > shownName || !prompt.ValidName(string(name)) {
			continue
		}
		separator := ", "
		if shown == 0 {
			separator = ": "
		}
		note = append(append(note, separator...), name...)
		shown++
	}
	if shown > 0 && shown < n {
		note = append(note, ", …"...)
	}
	return string(note)
}
