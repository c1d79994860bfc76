package document

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// hidden are characters that look like others or are invisible.
var hidden = map[rune]string{
	0xa0: "a no-break space", 0x202f: "a narrow no-break space", 0x3000: "a wide space",
	0xad: "a soft hyphen", 0x200b: "a zero-width space", 0x2060: "a word joiner", 0xfeff: "a byte order mark",
}

// Hidden describes the invisible characters of a name or a word, for messages: a
// space of another kind at its ends, or a character without width anywhere. It
// returns "" if there are none.
func Hidden(s string) string {
	for i, c := range s {
		description, ok := hidden[c]
		if !ok {
			continue
		}
		if inner := strings.HasSuffix(description, " space") && c != 0x200b; !inner || i == 0 || i+utf8.RuneLen(c) == len(s) {
			return fmt.Sprintf("%s (U+%04X)", description, c)
		}
	}
	return ""
}
