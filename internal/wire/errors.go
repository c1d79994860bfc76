package wire

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// Error is an error as the caller of the API gets it. Its text never holds a text of
// an upstream.
type Error struct {
	Code
	// Message describes the mistake and how to mend it.
	Message string
	// Param is the path of the wrong member, such as "keys[2]"; empty if the error
	// is not about a single one.
	Param string
	// TraceID is the trace id of the failed call; empty if it has no trace.
	TraceID string
	// RequestID is the id in the answer's header, for APIs whose errors repeat it:
	// the trace id, or a separate id if there is no trace.
	RequestID string
	// RetryAfter is when to try again. It is sent in whole seconds, rounded
	// up and at least 1, with status 409, 429, 503 and 529 only.
	RetryAfter time.Duration
	// Final reports that a repetition within a minute would get the same error.
	Final bool
	// Limit is the name of the limit that refuses the request; empty: none does.
	Limit string
	// Subject is whose use of the limit it is. It is for the operator, and not sent.
	Subject string
	// Tokens is how many tokens the input has, and Window how many it may have, of an
	// error with the code ContextLengthExceeded; 0: unknown.
	Tokens, Window int64
	// Allow is the value of the Allow header that 405 needs.
	Allow string
	// TokenSent reports, for 401, whether the request had a bearer token.
	TokenSent bool
	// OFREP adds the members that clients of OpenFeature's protocol read: FlagKey is the
	// flag that the request is for, empty for all, and FlagCode the error's code there.
	// Default: by Code and Param.
	OFREP             bool
	FlagKey, FlagCode string
}

// Errorf returns an error. param is the path of the wrong member, or empty.
func Errorf(c Code, param, format string, args ...any) *Error {
	return &Error{Code: c, Param: param, Message: fmt.Sprintf(format, args...)}
}

// Unauthorized returns the error for a request without a valid API key. Its body is
// the same for every cause; a header shows whether a token was sent.
func Unauthorized(tokenSent bool) *Error {
	return &Error{Code: InvalidAPIKey, Message: unauthorizedMessage, TokenSent: tokenSent}
}

// UnauthorizedStream is Unauthorized for the stream of changes of flags, which reads a token
// in its address in place of a key.
func UnauthorizedStream(tokenSent bool) *Error {
	return &Error{Code: InvalidAPIKey, Message: unauthorizedStreamMessage, TokenSent: tokenSent}
}

const (
	unauthorizedMessage       = "The API key is missing, unknown or no longer valid. Send a valid key as `Authorization: Bearer <key>`."
	unauthorizedStreamMessage = "The address has no token, or one that is unknown or no longer valid. Take the address in `eventStreams` of an answer with all flags."
)

// The challenges of a 401 (RFC 6750 section 3): without credentials there is
// no error attribute.
const (
	challenge             = `Bearer realm="cadenza"`
	challengeInvalidToken = `Bearer realm="cadenza", error="invalid_token"`
)

// Error returns the code and the message.
func (e *Error) Error() string { return e.Name + ": " + e.Message }

// AppendJSON appends the error's body. It has the members that OpenAI's clients
// read (https://platform.openai.com/docs/guides/error-codes) and the ones that
// the older clients of this API read.
func (e *Error) AppendJSON(dst []byte) []byte {
	if e.Code == InvalidAPIKey {
		message := unauthorizedMessage
		if e.Message == unauthorizedStreamMessage {
			message = e.Message
		}
		e = &Error{Code: InvalidAPIKey, Message: message, OFREP: e.OFREP, FlagKey: e.FlagKey}
	}
	dst = append(dst, `{"error":`...)
	dst = e.AppendObject(dst)
	dst = append(dst, `,"name":`...)
	dst = jsontext.AppendString(dst, e.Name)
	dst = append(dst, `,"message":`...)
	dst = jsontext.AppendString(dst, e.Message)
	dst = append(dst, `,"error_code":`...)
	dst = jsontext.AppendString(dst, e.Name)
	if e.TraceID != "" {
		dst = append(dst, `,"trace_id":`...)
		dst = jsontext.AppendString(dst, e.TraceID)
	}
	if e.OFREP {
		dst = e.appendFlagError(dst)
	}
	return append(dst, '}')
}

// AppendObject appends the value of the body's member "error".
func (e *Error) AppendObject(dst []byte) []byte {
	dst = append(dst, `{"message":`...)
	dst = jsontext.AppendString(dst, e.Message)
	dst = append(dst, `,"type":`...)
	dst = jsontext.AppendString(dst, e.Type)
	dst = append(dst, `,"param":`...)
	if e.Param == "" {
		dst = append(dst, "null"...)
	} else {
		dst = jsontext.AppendString(dst, e.Param)
	}
	dst = append(dst, `,"code":`...)
	dst = jsontext.AppendString(dst, e.Name)
	return append(dst, '}')
}

// WriteError answers the request with e: status, headers and body. Nothing
// may have been written to w before.
func WriteError(w http.ResponseWriter, e *Error) {
	WriteErrorBody(w, e, e.AppendJSON(make([]byte, 0, 512)))
}

// WriteErrorBody answers the request with e as WriteError does, in the given body.
func WriteErrorBody(w http.ResponseWriter, e *Error, body []byte) {
	h := w.Header()
	// Headers for the answer that failed must not describe this one.
	h.Del("Content-Encoding")
	h.Del("Etag")
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	status := e.Status
	switch status {
	case 0:
		status = http.StatusBadGateway
	case http.StatusUnauthorized:
		if e.TokenSent {
			h.Set("Www-Authenticate", challengeInvalidToken)
		} else {
			h.Set("Www-Authenticate", challenge)
		}
	case http.StatusMethodNotAllowed, http.StatusUpgradeRequired:
		h.Set("Allow", e.Allow)
	case http.StatusConflict, http.StatusTooManyRequests, http.StatusServiceUnavailable, StatusOverloaded:
		h.Set("Retry-After", strconv.FormatInt(e.RetrySeconds(), 10))
	}
	if e.Final {
		h[HeaderShouldRetry] = ShouldNotRetry
	}
	if e.TraceID != "" && e.Code != InvalidAPIKey {
		h.Set(HeaderTraceID, e.TraceID)
	}
	w.WriteHeader(status)
	// A failed write means that the client left.
	_, _ = w.Write(body)
}

// RetrySeconds returns RetryAfter in the whole seconds in which it is sent.
func (e *Error) RetrySeconds() int64 {
	return max(1, int64((e.RetryAfter+time.Second-1)/time.Second))
}
