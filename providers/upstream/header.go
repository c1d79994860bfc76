package upstream

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/providers"
)

// maxRetryAfter bounds the wait that a provider may ask for: beyond it the
// number is taken for this one, so that nothing overflows.
const maxRetryAfter = 24 * time.Hour

// RetryAfter reads how long a provider asks to wait: retry-after-ms or
// x-ms-retry-after-ms in milliseconds, else Retry-After (RFC 9110,
// https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3) in seconds, decimals
// allowed, or as a date. It is 0 if there is none, or none that makes sense,
// and 24 hours at most.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	for _, name := range [...]string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if d, ok := parseDelay(h.Get(name), time.Millisecond); ok {
			return d
		}
	}
	text := h.Get("Retry-After")
	if d, ok := parseDelay(text, time.Second); ok {
		return d
	}
	if date, err := http.ParseTime(text); err == nil {
		return min(max(0, date.Sub(now)), maxRetryAfter)
	}
	return 0
}

func parseDelay(text string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	// Too large a number is still a number: ParseFloat gives infinity.
	if err != nil && !math.IsInf(n, 1) || math.IsNaN(n) || n < 0 {
		return 0, false
	}
	if n >= float64(maxRetryAfter/unit) {
		return maxRetryAfter, true
	}
	return time.Duration(n * float64(unit)), true
}

// Advice reads the header x-should-retry.
func Advice(h http.Header) providers.Advice {
	switch h.Get("X-Should-Retry") {
	case "true":
		return providers.Retry
	case "false":
		return providers.DoNotRetry
	}
	return providers.NoAdvice
}

// CheckKey returns an error if a key or a token can't be sent in a header, nil
// where nothing does.
func CheckKey(key string) error {
	if !ValidHeaderValue(key) {
		return errors.New("holds a character that a header cannot carry")
	}
	return nil
}

// ValidHeaderValue reports whether a secret can be sent in a header: visible
// ASCII.
func ValidHeaderValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// Unanswered explains a call without a response: it was cancelled, no answer
// began, or there is a mistake that another try would repeat.
func Unanswered(ctx context.Context, err error, secrets ...string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if e, ok := errors.AsType[*providers.ConnectError](err); ok {
		return e
	}
	if err == nil {
		err = errors.New("no response")
	}
	return &providers.ConnectError{Permanent: true, Err: errors.New(Redact(err.Error(), secrets...))}
}
