package visible

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Width returns how many columns of a terminal or an editor a text takes: 2 for
// a wide character of East Asia, 0 for a mark that joins the one before.
func Width(text string) int {
	n := 0
	for _, r := range text {
		n += widthOf(r)
	}
	return n
}

// Clip cuts a text to a width, of which the last column is an ellipsis. Text
// that is not wider stays as it is.
func Clip(text string, most int) string {
	if Width(text) <= most {
		return text
	}
	n := 0
	for i, r := range text {
		if n += widthOf(r); n > most-1 {
			return text[:i] + "…"
		}
	}
	return text
}

func widthOf(r rune) int {
	switch {
	case r < utf8.RuneSelf:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	}
	if k := width.LookupRune(r).Kind(); k == width.EastAsianWide || k == width.EastAsianFullwidth {
		return 2
	}
	return 1
}
