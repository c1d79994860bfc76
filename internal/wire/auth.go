package wire

import (
	"net/http"
	"strings"
)

// The length of an API key in characters.
const (
	MinTokenLength = 16
	MaxTokenLength = 512
)

// MaxKeyName bounds the name of an API key in bytes, because every trace holds it.
const MaxKeyName = 256

// BearerToken reads the API key from the Authorization header (RFC 6750
// section 2.1; the scheme's case is ignored, RFC 9110 section 11.1). ok reports
// whether there was exactly one such header with a token in the form of an API
// key: 16 to 512 visible ASCII characters. sent reports whether a bearer token was
// sent at all, which decides the challenge of a 401.
func BearerToken(h http.Header) (token string, sent, ok bool) {
	values := h["Authorization"]
	for _, value := range values {
		scheme, rest, _ := strings.Cut(value, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			continue
		}
		if token = strings.Trim(rest, " "); token != "" {
			sent = true
		}
	}
	if !sent || len(values) != 1 || !LegalToken(token) {
		return "", sent, false
	}
	return token, true, true
}

// LegalToken reports whether s has the form of an API key: 16 to 512 visible
// ASCII characters.
func LegalToken(s string) bool {
	return len(s) >= MinTokenLength && len(s) <= MaxTokenLength && visibleASCII(s)
}
