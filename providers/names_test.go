package providers

import (
	"strings"
	"testing"
)

func TestShortName(t *testing.T) {
	for name, want := range map[string]string{
		"":                                 "",
		strings.Repeat("m", MaxName):       strings.Repeat("m", MaxName),
		strings.Repeat("m", 8<<20):         strings.Repeat("m", MaxName),
		strings.Repeat("é", MaxName):       strings.Repeat("é", MaxName/2),
		"m" + strings.Repeat("é", MaxName): "m" + strings.Repeat("é", MaxName/2-1),
		strings.Repeat("\x80", 2*MaxName):  strings.Repeat("\x80", MaxName-4), // no text at all
	} {
		if got := ShortName(name); got != want {
			t.Errorf("%d bytes became %d, want %d", len(name), len(got), len(want))
		}
	}
}

// The words of a provider's error go into a line of the log.
func TestWordsOfErrorsAreShort(t *testing.T) {
	long := strings.Repeat("w", 1<<20)
	if text := (&Error{Provider: "p", Code: long, Type: long}).Error(); len(text) > 3*MaxName {
		t.Errorf("the error has %d bytes", len(text))
	}
}
