package invoke

import (
	"cmp"
	"time"
)

// The words callers get for a failed call.
const (
	CodeInternal        = "internal"
	CodeOverloaded      = "overloaded"
	CodeError           = "upstream_error"
	CodeRejected        = "upstream_rejected"
	CodeRefused         = "upstream_refused"
	CodeCredentials     = "upstream_credentials"
	CodeInvalidResponse = "upstream_invalid_response"
	CodeUnavailable     = "upstream_unavailable"
	CodeRateLimited     = "upstream_rate_limited"
	CodeTimeout         = "upstream_timeout"
	CodeInterrupted     = "upstream_interrupted"
)

var messages = map[string]string{
	CodeInternal:        "The gateway failed to call the model provider.",
	CodeOverloaded:      "As many calls as may be are in flight at the model provider's host (in_flight: host). Try again later.",
	CodeError:           "The model provider failed to answer.",
	CodeRejected:        "The model provider does not accept the endpoint's request. Its definition has to be mended; the gateway's log says more.",
	CodeRefused:         "The model provider refused to answer by its content policy.",
	CodeCredentials:     "The model provider does not accept the gateway's credentials, or its account is used up. The gateway's log says more.",
	CodeInvalidResponse: "The model provider's answer was incomplete or not understood.",
	CodeUnavailable:     "No model provider can be reached at present. Try again later.",
	CodeRateLimited:     "The model providers limit the rate of requests at present. Try again later.",
	CodeTimeout:         "The model provider did not answer in time.",
	CodeInterrupted:     "The answer was interrupted and is incomplete.",
}

// noRoom is the message of CodeOverloaded where it is not calls that are too many.
const noRoom = "Too many large answers of model providers are being read. Try again later."

// Error is a failed call.
type Error struct {
	// Code is the word for the caller: one of the Code constants. With class
	// ClientGone there is nobody left to tell.
	Code string
	// Class is the class of failure that decided the code.
	Class Class
	// RetryAfter is when another call may do better; at least a second where
	// the code is CodeRateLimited, CodeUnavailable or CodeOverloaded.
	RetryAfter time.Duration
	// Committed tells that content was already handed to emit.
	Committed bool
	// Attempts counts the attempts made.
	Attempts int
	// Err is the detail, for the log: it holds no key and no URL query.
	Err error
}

// Message is the text for the caller. It never holds a provider's words.
func (e *Error) Message() string {
	if e.Class == NoRoom && e.Code == CodeOverloaded {
		return noRoom
	}
	return cmp.Or(messages[e.Code], messages[CodeInternal])
}

// Error is the text for the log.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Code
	}
	return e.Code + ": " + e.Err.Error()
}

// Unwrap returns the detail.
func (e *Error) Unwrap() error { return e.Err }
