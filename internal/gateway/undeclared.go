package gateway

import (
	"regexp"
	"strconv"
	"strings"
)

// shownUndeclared is how many undeclared variables a note names.
const shownUndeclared = 5

// variableName is the form of names that a note may have. Others may be anything
// that a caller sent, such as a customer's address.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)

// undeclaredNote returns the note of n variables that a prompt does not declare,
// with the first names: "3 undeclared variables: compny, qestion, …".
func undeclaredNote(n int, names []string) string {
	note := strconv.Itoa(n) + " undeclared variables"
	if n == 1 {
		note = "1 undeclared variable"
	}
	var shown []string
	for _, name := range names {
		if len(shown) < shownUndeclared && variableName.MatchString(name) {
			shown = append(shown, name)
		}
	}
	if len(shown) == 0 {
		return note
	}
	if len(shown) < n {
		shown = append(shown, "…")
	}
	return note + ": " + strings.Join(shown, ", ")
}
