package providers

import (
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrorKind is the way in which a provider's answer fails to be a completion.
type ErrorKind uint8

// The ways an answer fails.
const (
	// Status is an HTTP answer with another status than success.
	Status ErrorKind = iota
	// Reported is an error that the provider reports inside an answer that
	// began as a success.
	Reported
	// Truncated is an answer that stopped before the provider's end marker.
	Truncated
	// Invalid is an answer that is no completion: undecodable, empty, of the
	// wrong type or over a size limit.
	Invalid
	// Refused is an answer that the provider withholds by its content policy.
	Refused
)

// String returns the kind's name in logs.
func (k ErrorKind) String() string {
	switch k {
	case Status:
		return "status"
	case Reported:
		return "reported"
	case Truncated:
		return "truncated"
	case Invalid:
		return "invalid"
	case Refused:
		return "refused"
	}
	return "kind " + strconv.Itoa(int(k))
}

// Advice is a provider's advice about trying again, in the header
// x-should-retry.
type Advice uint8

// The kinds of advice.
const (
	NoAdvice Advice = iota
	Retry
	DoNotRetry
)

// Error is an answer of a provider that is not a completion. Its text is for
// the gateway's own log, never for a caller.
type Error struct {
	Provider   string
	Kind       ErrorKind
	Status     int    // HTTP status, 0 where none was received
	Code       string // the provider's error code
	Type       string // the provider's error type
	Param      string // the member of the request that the provider names, or the parameter that it lacks; empty: none
	Message    string // the provider's text, capped and without secrets
	Reason     string // the problem, in the gateway's own words, without the provider's
	Lacks      string // the part of a message, or the parameter, that the provider does not take; empty: none
	Advice     Advice
	RetryAfter time.Duration // how long the provider asks to wait, or 0
	Err        error
}

// Error returns all that is known of the failure, for the log.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Provider)
	b.WriteString(": ")
	b.WriteString(e.Kind.String())
	if e.Status != 0 {
		b.WriteString(" ")
		b.WriteString(strconv.Itoa(e.Status))
	}
	for _, word := range []string{e.Type, e.Code} {
		if word != "" {
			b.WriteString(" ")
			b.WriteString(ShortName(word))
		}
	}
	if e.Param != "" {
		b.WriteString(" (")
		b.WriteString(ShortName(e.Param))
		b.WriteString(")")
	}
	for _, text := range []string{e.Reason, e.Message} {
		if text != "" {
			b.WriteString(": ")
			b.WriteString(text)
		}
	}
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause, such as the error of a read.
func (e *Error) Unwrap() error { return e.Err }

// ConnectError is a call that got no answer: resolving, connecting, TLS or
// sending failed, or the connection ended before the response's headers.
type ConnectError struct {
	// Permanent reports whether another try must fail in the same way: because of
	// a bad certificate, for example, or an address that is not allowed.
	Permanent bool
	Err       error // without URLs: they may carry secrets
}

// Error returns the cause's text, and the step that failed if that is known:
// "no answer (DNS): lookup api.example: no such host".
func (e *ConnectError) Error() string {
	if what := e.What(); what != "" {
		return "no answer (" + what + "): " + e.Err.Error()
	}
	return "no answer: " + e.Err.Error()
}

// What returns the step that failed: "DNS", "time-out", "TLS", "refused",
// "reset" or "unreachable". It is empty for anything else.
func (e *ConnectError) What() string {
	if _, ok := errors.AsType[*net.DNSError](e.Err); ok {
		return "DNS"
	}
	if timeout, ok := errors.AsType[net.Error](e.Err); ok && timeout.Timeout() {
		return "time-out"
	}
	text := e.Err.Error()
	has := func(word string) bool { return strings.Contains(text, word) }
	switch {
	case has("tls: "), has("x509: "), has("HTTP response to HTTPS client"):
		return "TLS"
	// Windows has errors of its own, in these words.
	case errors.Is(e.Err, syscall.ECONNREFUSED), has("actively refused"):
		return "refused"
	case errors.Is(e.Err, syscall.ECONNRESET), errors.Is(e.Err, syscall.EPIPE), errors.Is(e.Err, io.EOF), has("forcibly closed"):
		return "reset"
	case errors.Is(e.Err, syscall.EHOSTUNREACH), errors.Is(e.Err, syscall.ENETUNREACH), has("unreachable "):
		return "unreachable"
	}
	return ""
}

// Unwrap returns the cause.
func (e *ConnectError) Unwrap() error { return e.Err }
