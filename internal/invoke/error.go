package invoke

import (
	"cmp"
	"fmt"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// messages are the texts for callers.
var messages = map[wire.Code]string{
	wire.Internal:                "The gateway failed to call the model provider.",
	wire.RateLimited:             "A limit has no room for what the call may use. Try again later.",
	wire.Overloaded:              "As many calls as may be are in flight at the model provider's host (in_flight: host). Try again later.",
	wire.UpstreamError:           "The model provider failed to answer.",
	wire.UpstreamRejected:        "The model provider does not accept the endpoint's request. Its definition has to be mended; the gateway's log says more.",
	wire.UpstreamRefused:         "The model provider refused to answer by its content policy.",
	wire.UpstreamCredentials:     "The model provider does not accept the gateway's credentials, or its account is used up. The gateway's log says more.",
	wire.ContextLengthExceeded:   "The input exceeds the context window of the endpoint's models. Please reduce the length of the messages.",
	wire.UpstreamInvalidResponse: "The model provider's answer was incomplete or not understood.",
	wire.UpstreamUnavailable:     "No model provider can be reached at present. Try again later.",
	wire.UpstreamRateLimited:     "The model providers limit the rate of requests at present. Try again later.",
	wire.UpstreamTimeout:         "The model provider did not answer in time.",
	wire.UpstreamInterrupted:     "The answer was interrupted and is incomplete.",
}

// noRoom is the message of wire.Overloaded if answers, not calls, are too many.
const noRoom = "Too many large answers of model providers are being read. Try again later."

// Error is a failed call.
type Error struct {
	// Code is the error for the caller. With class ClientGone there is no
	// caller left.
	Code wire.Code
	// Class is the class of failure that decided the code.
	Class Class
	// RetryAfter is how soon another call may succeed; at least a second if the code is
	// wire.UpstreamRateLimited, wire.UpstreamUnavailable, wire.Overloaded or
	// wire.RateLimited, or if the provider is Overloaded.
	RetryAfter time.Duration
	// Overloaded reports that the provider has too much to do, if the code is
	// wire.UpstreamError.
	Overloaded bool
	// Final reports that another call would end in the same way. A caller that
	// repeats it pays again, for nothing.
	Final bool
	// Lacks is the part of a message, or the parameter, that no target takes; empty: the
	// call failed otherwise.
	Lacks string
	// Member is what the provider calls invalid, or lacks: a parameter by its name in
	// definitions, MemberMessages or MemberMedia; empty: unknown.
	Member string
	// Tool is the tool that Member "tools" means, counted from the last one, which is 1;
	// 0: unknown.
	Tool int
	// Tokens is how many tokens the input has, and Window how many the model takes, if
	// the code is wire.ContextLengthExceeded and the provider says both; else 0.
	Tokens, Window int64
	// Committed reports whether emit already got content.
	Committed bool
	// Attempts counts the attempts made.
	Attempts int
	// Err is the detail for the log. It holds no key and no URL query.
	Err error
}

// Message returns the text for the caller. It never holds a provider's words.
func (e *Error) Message() string {
	if e.Class == NoRoom && e.Code == wire.Overloaded {
		return noRoom
	}
	if e.Lacks != "" && e.Member != MemberMedia {
		return "The endpoint's targets have no " + e.Lacks + " as it is asked for. Leave it out, or have the endpoint's definition name a target that has it."
	}
	if e.Lacks != "" {
		return "The endpoint's targets take no " + e.Lacks + ", which a message has. Leave it out, or have the endpoint's definition name a target that takes it."
	}
	if e.Tokens > 0 {
		return fmt.Sprintf("The input exceeds the context window of the endpoint's models: it has %d tokens, and the maximum context length is %d tokens. Please reduce the length of the messages.", e.Tokens, e.Window)
	}
	return cmp.Or(messages[e.Code], messages[wire.Internal])
}

// Error returns the text for the log.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Code.Name
	}
	return e.Code.Name + ": " + e.Err.Error()
}

// Unwrap returns the detail.
func (e *Error) Unwrap() error { return e.Err }
