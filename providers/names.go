package providers

import (
	"strings"
	"unicode/utf8"
)

// MaxName bounds every name that an upstream gives, in bytes: the model's, those
// of tool calls and of tools, the words of its errors. They are kept with traces,
// shown in lists and logged, and a service that sends megabytes there must not
// fill those.
const MaxName = 256

// ShortName cuts a name to MaxName, between two characters, and lets go of what
// is cut off.
func ShortName(name string) string {
	if len(name) <= MaxName {
		return name
	}
	end := MaxName
	for end > MaxName-utf8.UTFMax && !utf8.RuneStart(name[end]) {
		end--
	}
	return strings.Clone(name[:end])
}
