package wire

import "slices"

// Code is a kind of error: its name on the wire, the HTTP status it is
// answered with and its class in OpenAI's error vocabulary.
type Code struct {
	Name   string
	Status int // 0 for a code that only occurs inside a stream
	Type   string
}

// The classes of errors, the value of error.type.
const (
	typeInvalidRequest = "invalid_request_error"
	typeAuthentication = "authentication_error"
	typePermission     = "permission_error"
	typeNotFound       = "not_found_error"
	typeRateLimit      = "rate_limit_error"
	typeServer         = "server_error"
)

// The codes of the contract.
var (
	InvalidJSON     = Code{"invalid_json", 400, typeInvalidRequest}
	InvalidRequest  = Code{"invalid_request", 400, typeInvalidRequest}
	MissingVariable = Code{"missing_variable", 400, typeInvalidRequest}
	NoMetrics       = Code{"no_metrics", 400, typeInvalidRequest}
	// ContextLengthExceeded is an input with more tokens than a model takes.
	ContextLengthExceeded = Code{"context_length_exceeded", 400, typeInvalidRequest}

	InvalidAPIKey = Code{"invalid_api_key", 401, typeAuthentication}
	// KeyNotAllowed is a valid key that does not open the routes of apps.
	KeyNotAllowed   = Code{"key_not_allowed", 403, typePermission}
	NotFound        = Code{"not_found", 404, typeNotFound}
	UnknownKey      = Code{"unknown_key", 404, typeNotFound}
	UnknownEndpoint = Code{"unknown_endpoint", 404, typeNotFound}
	UnknownTrace    = Code{"unknown_trace", 404, typeNotFound}
	// ModelNotFound is UnknownEndpoint for callers that name endpoints as models.
	ModelNotFound       = Code{"model_not_found", 404, typeNotFound}
	MethodNotAllowed    = Code{"method_not_allowed", 405, typeInvalidRequest}
	Conflict            = Code{"conflict", 409, typeInvalidRequest}
	BodyTooLarge        = Code{"body_too_large", 413, typeInvalidRequest}
	UnsupportedEncoding = Code{"unsupported_encoding", 415, typeInvalidRequest}
	IdempotencyMismatch = Code{"idempotency_mismatch", 422, typeInvalidRequest}
	NoWebSocket         = Code{"no_websocket", 426, typeInvalidRequest}
	RateLimited         = Code{"rate_limited", 429, typeRateLimit}
	Internal            = Code{"internal", 500, typeServer}
	UpstreamError       = Code{"upstream_error", 502, typeServer}
	UpstreamRejected    = Code{"upstream_rejected", 502, typeServer}
	// UpstreamRefused is a refusal by the provider's content policy.
	UpstreamRefused         = Code{"upstream_refused", 502, typeServer}
	UpstreamCredentials     = Code{"upstream_credentials", 502, typeServer}
	UpstreamInvalidResponse = Code{"upstream_invalid_response", 502, typeServer}
	Overloaded              = Code{"overloaded", 503, typeServer}
	StoreUnavailable        = Code{"store_unavailable", 503, typeServer}
	UpstreamUnavailable     = Code{"upstream_unavailable", 503, typeServer}
	UpstreamRateLimited     = Code{"upstream_rate_limited", 503, typeServer}
	UpstreamTimeout         = Code{"upstream_timeout", 504, typeServer}
	// UpstreamInterrupted is an answer cut after its first content went out.
	UpstreamInterrupted = Code{"upstream_interrupted", 0, typeServer}
)

// StatusOverloaded is the status by which Anthropic's API says that a model has too much
// to do.
const StatusOverloaded = 529

// Foreign returns the code as APIs of others have it. Their clients wait and ask again at
// a 429, and take a 503 for an outage.
func (c Code) Foreign() Code {
	if c == UpstreamRateLimited {
		c.Status, c.Type = 429, typeRateLimit
	}
	return c
}

var codes = []Code{
	InvalidJSON, InvalidRequest, MissingVariable, NoMetrics, ContextLengthExceeded,
	InvalidAPIKey, KeyNotAllowed,
	NotFound, UnknownKey, UnknownEndpoint, ModelNotFound, UnknownTrace,
	MethodNotAllowed, Conflict, BodyTooLarge, UnsupportedEncoding, IdempotencyMismatch,
	NoWebSocket, RateLimited,
	Internal,
	UpstreamError, UpstreamRejected, UpstreamRefused, UpstreamCredentials, UpstreamInvalidResponse,
	Overloaded, StoreUnavailable, UpstreamUnavailable, UpstreamRateLimited,
	UpstreamTimeout,
	UpstreamInterrupted,
}

// Codes returns every code of the contract, in the order of their status.
func Codes() []Code { return slices.Clone(codes) }

// LookupCode finds a code by its name.
func LookupCode(name string) (Code, bool) {
	i := slices.IndexFunc(codes, func(c Code) bool { return c.Name == name })
	if i < 0 {
		return Code{}, false
	}
	return codes[i], true
}
