package upstream

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cadenza-gateway/cadenza/secret"
)

const (
	// maxText bounds a provider's error text in the log, in bytes.
	maxText = 1 << 10
	// maxExcerpt bounds the excerpt of a body in the log, in bytes.
	maxExcerpt = 512
	// excerptMargin is how much more of it is looked at, in bytes: a secret that
	// an excerpt would cut in two must be seen whole.
	excerptMargin = 8 << 10
)

const redacted = "[redacted]"

// The shapes of secrets of any origin, and the queries and the user information
// of URLs.
var (
	secretShape = regexp.MustCompile(`\b(?:sk|pk|gsk|xai|pplx|key|AIza)[-_0-9A-Za-z*.]{12,}|(?i:bearer)\s+\S+`)
	urlUser     = regexp.MustCompile(`(\b[A-Za-z][A-Za-z0-9+.-]*:\\?/\\?/)[^\s/\\?#"'<>]*@`)
	urlQuery    = regexp.MustCompile(`(https?://[^\s?"'<>]*)\?[^\s"'<>]*`)
)

// Redact makes a provider's text fit for the log: without the secrets given and
// those that the gateway knows, without words that look like one, without the
// queries and the user information of URLs, as one line of at most 1 KiB.
func Redact(text string, secrets ...string) string { return redact(text, maxText, secrets) }

// Excerpt is the beginning of a body that is not an answer, fit for the log as
// Redact makes it, of at most 512 bytes.
func Excerpt(body []byte, secrets ...string) string {
	return redact(string(body[:min(len(body), maxExcerpt+excerptMargin)]), maxExcerpt, secrets)
}

func redact(text string, limit int, secrets []string) string {
	// The given ones first: one that is known may be a part of them.
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, redacted)
		}
	}
	text = secret.Known().Replace(text, redacted)
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)
	text = secretShape.ReplaceAllString(text, redacted)
	text = urlUser.ReplaceAllString(text, "$1"+redacted+"@")
	text = urlQuery.ReplaceAllString(text, "$1?"+redacted)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > limit {
		cut := limit
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "…"
	}
	return text
}
