// Package wire is the public contract in bytes: request parsing, answers, SSE
// events, error bodies and the list of error codes. It knows nothing of
// definitions, stores or providers.
//
// A handler takes a Request from the pool, reads and parses the body into a
// typed result, and writes its answer with the Append functions:
//
//	req := wire.AcquireRequest()
//	defer req.Release()
//	if err := req.ReadBody(w, r, limit, timeout, nil); err != nil {
//		wire.WriteError(w, err)
//		return
//	}
//	call, err := req.Prompts()
//
// Everything a parsed result refers to, strings included, is a view of the
// request's buffers and must not be used after Release, except where the
// result says that it owns its data.
package wire

// HeaderIdempotencyKey is the request header by which a repeated request is known.
const HeaderIdempotencyKey = "Idempotency-Key"

// HeaderLog is the request header by which a caller has less recorded of its
// request: "none", "metadata" or "content".
const HeaderLog = "Cadenza-Log"

// Names of the headers that the gateway adds to its answers.
const (
	// HeaderTraceID names the trace of an answer that has exactly one.
	HeaderTraceID = "Cadenza-Trace-Id"
	// HeaderDecisionID names the decision that an answer from definitions is of.
	HeaderDecisionID = "Cadenza-Decision-Id"
	// HeaderRevision is the revision of the definitions that answered.
	HeaderRevision = "Cadenza-Revision"
	// HeaderUnknownKeys lists the requested keys that no definition has.
	HeaderUnknownKeys = "Cadenza-Unknown-Keys"
	// HeaderAttempts counts the upstream calls an endpoint's answer took.
	HeaderAttempts = "Cadenza-Attempts"
	// HeaderServedBy names the provider and model that answered.
	HeaderServedBy = "Cadenza-Served-By"
	// HeaderCacheStatus says how a cache handled the request (RFC 9211).
	HeaderCacheStatus = "Cache-Status"
	// HeaderIgnored lists the members of the request that have no effect.
	HeaderIgnored = "Cadenza-Ignored"
	// HeaderUsage is "estimated" on an answer whose provider gave no usage.
	HeaderUsage = "Cadenza-Usage"
	// HeaderIdempotentReplayed is "true" on an answer that an earlier request with
	// the same idempotency key got.
	HeaderIdempotentReplayed = "Idempotent-Replayed"
	// HeaderDeprecation (RFC 9745) says since when the end of an endpoint is announced,
	// and HeaderSunset (RFC 8594) when that is.
	HeaderDeprecation = "Deprecation"
	HeaderSunset      = "Sunset"
	// HeaderShouldRetry is "false" if a repetition can't help. OpenAI's and
	// Anthropic's libraries obey it; else they repeat a 409, a 429 and a 5xx twice.
	HeaderShouldRetry = "X-Should-Retry"
)

// ShouldNotRetry is the value of HeaderShouldRetry. It must not be modified.
var ShouldNotRetry = []string{"false"}
