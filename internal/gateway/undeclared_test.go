package gateway

import (
	"strings"
	"testing"
)

func TestUndeclaredNote(t *testing.T) {
	for want, names := range map[string][]string{
		"1 undeclared variable: compny":            {"compny"},
		"2 undeclared variables: a, b-c.d":         {"a", "b-c.d"},
		"2 undeclared variables: a, …":             {"a", "ada@example.com"},
		"1 undeclared variable":                    {"0612345678"},
		"7 undeclared variables: a, b, c, d, e, …": {"a", "b", "c", "d", "e", "f", "g"},
		"3 undeclared variables: x, …":             {strings.Repeat("n", 65), "x", ""},
	} {
		var sent [][]byte
		for _, name := range names {
			sent = append(sent, []byte(name))
		}
		if got := undeclaredNote(len(names), sent); got != want {
			t.Errorf("%q: %q, want %q", names, got, want)
		}
	}
}
