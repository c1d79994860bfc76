package upstream

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxText bounds a provider's error text in the log, in bytes.
const maxText = 1 << 10

const redacted = "[redacted]"

// What looks like a secret whoever made it, and the queries of URLs.
var (
	secretShape = regexp.MustCompile(`\b(?:sk|pk|gsk|xai|pplx|key|AIza)[-_0-9A-Za-z*.]{12,}|(?i:bearer)\s+\S+`)
	urlQuery    = regexp.MustCompile(`(https?://[^\s?"'<>]*)\?[^\s"'<>]*`)
)

// Redact makes a provider's text fit for the log: without the secrets given,
// without what looks like one, without the queries of URLs, as one line of at
// most 1 KiB.
func Redact(text string, secrets ...string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, redacted)
		}
	}
	text = secretShape.ReplaceAllString(text, redacted)
	text = urlQuery.ReplaceAllString(text, "$1?"+redacted)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxText {
		cut := maxText
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "…"
	}
	return text
}
