package providers

import (
	"strings"
	"unicode/utf8"
)

// MaxName bounds every name that an upstream gives, in bytes: of the model, of tool
// calls and tools, and the words of its errors. Names are kept with traces, shown
// in lists and logged, and a service that sends megabytes must not fill them.
const MaxName = 256

// ShortName cuts a name to MaxName bytes, between two characters. It copies the
// name if it cuts, so that the original can be freed.
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
