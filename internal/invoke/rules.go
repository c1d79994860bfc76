package invoke

import (
	"strconv"
	"strings"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Rule puts the answers that it matches into a class. A member that is not set
// matches every answer; of a list, one element must match.
type Rule struct {
	Class  Class
	Kind   *providers.ErrorKind
	Status []int    // a negative one means a hundred of them: -500 is 500 to 599
	Words  []string // the provider's error code or type, whole, in lower case
	Phrase []string // parts of the provider's text, in lower case
}

func kind(k providers.ErrorKind) *providers.ErrorKind { return &k }

// The first rule that matches decides. Words come before statuses, because
// providers report a spent quota as a 429, a bad key as a 400 and a model that
// is gone as a 403.
var rules = []Rule{
	{Class: ContentPolicy, Kind: kind(providers.Refused)},
	// Another try at the same target would end in the same way, and the target is
	// not at fault.
	{Class: Length, Kind: kind(providers.Invalid), Words: []string{string(providers.FinishLength)}},
	{Class: InvalidAnswer, Kind: kind(providers.Truncated)},
	{Class: InvalidAnswer, Kind: kind(providers.Invalid)},

	{Class: ContentPolicy, Words: []string{"content_policy_violation", "content_filter", "content_filter_error", "responsibleaipolicyviolation", "moderation_blocked"}},
	{Class: Model, Words: []string{"model_not_found", "deploymentnotfound", "model_decommissioned", "model_not_available", "model_not_supported", "unsupported_country_region_territory"}},
	{Class: Model, Status: []int{0, 400}, Phrase: []string{"location is not supported"}},
	// Bedrock's text for a rate limit is about too many tokens.
	{Class: RateLimit, Words: []string{"throttlingexception"}},
	{Class: ContextLength, Words: []string{"context_length_exceeded", "string_above_max_length", "request_too_large", "exceed_context_size_error"}},
	{Class: ContextLength, Status: []int{0, 400, 413, 422}, Phrase: []string{"maximum context length", "context window", "context length", "prompt is too long", "input is too long", "too many tokens", "token count exceeds", "exceeds the maximum number of tokens", "exceed context limit", "maximum prompt length", "available context size"}},
	// Gemini uses this word for every 429. Its text is about quota even if it
	// means requests per minute.
	{Class: RateLimit, Status: []int{429}, Words: []string{"resource_exhausted"}},
	{Class: Quota, Words: []string{"insufficient_quota", "insufficient_balance", "billing_hard_limit_reached", "billing_not_active", "billing_error", "blocked_api_access", "enforced_spend_limit_reached", "servicequotaexceededexception"}},
	{Class: Quota, Status: []int{402}},
	{Class: Quota, Status: []int{0, 400, 403, 429}, Phrase: []string{"exceeded your current quota", "credit balance", "insufficient balance", "insufficient credit", "spend limit", "spending limit", "api usage limits"}},
	{Class: Credential, Words: []string{"invalid_api_key", "authentication_error", "unauthenticated", "unrecognizedclientexception", "account_deactivated", "permission_error", "permission_denied"}},
	{Class: Credential, Status: []int{0, 400}, Phrase: []string{"api key not valid", "api key not found", "api key expired", "invalid api key"}},
	{Class: Credential, Status: []int{401, 403}},

	{Class: RateLimit, Status: []int{429}},
	{Class: RateLimit, Words: []string{"rate_limit_error", "rate_limit_exceeded", "too_many_requests", "tokens", "requests"}},
	{Class: Transient, Status: []int{408, 409, 425, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529}},
	{Class: Transient, Words: []string{"server_error", "api_error", "overloaded_error", "overloaded", "internal_server_error", "internal_error", "service_unavailable", "timeout", "timeout_error", "unavailable", "internalserverexception", "serviceunavailableexception", "modelerrorexception", "modelstreamerrorexception", "modeltimeoutexception"}},
	{Class: Model, Status: []int{404, 410}},
	{Class: ContextLength, Status: []int{413}},
	{Class: Rejected, Words: []string{"invalid_request_error", "invalid_argument", "bad_request", "validationexception"}},
	{Class: Rejected, Status: []int{-400}},
	// An error inside an answer without a known word: the provider had accepted
	// the request.
	{Class: Transient, Kind: kind(providers.Reported)},
	{Class: Unknown},
}

// Rules returns the table by which answers are classified.
func Rules() []Rule { return append([]Rule(nil), rules...) }

func classifyAnswer(e *providers.Error) Class {
	status := e.Status
	if e.Kind == providers.Reported {
		status = 0
		// Some servers put the status they would have sent into the code.
		if n, err := strconv.Atoi(e.Code); err == nil && n >= 400 && n <= 599 {
			status = n
		}
	}
	code, kindOf, text := strings.ToLower(e.Code), strings.ToLower(e.Type), strings.ToLower(e.Message)
	class := Unknown
	for i := range rules {
		if rules[i].matches(e.Kind, status, code, kindOf, text) {
			class = rules[i].Class
			break
		}
	}
	if e.Advice == providers.Retry && (class == Rejected || class == Unknown) {
		return Transient
	}
	return class
}

func (r *Rule) matches(k providers.ErrorKind, status int, code, typ, text string) bool {
	if r.Kind != nil && *r.Kind != k {
		return false
	}
	if len(r.Status) > 0 && !matchesStatus(r.Status, status) {
		return false
	}
	if len(r.Words) > 0 && !matchesWord(r.Words, code, typ) {
		return false
	}
	return len(r.Phrase) == 0 || containsAny(text, r.Phrase)
}

func matchesStatus(statuses []int, status int) bool {
	for _, s := range statuses {
		if s == status || s < 0 && status >= -s && status < -s+100 {
			return true
		}
	}
	return false
}

func matchesWord(words []string, code, typ string) bool {
	for _, w := range words {
		if w == code || w == typ {
			return true
		}
	}
	return false
}

func containsAny(text string, parts []string) bool {
	for _, p := range parts {
		if strings.Contains(text, p) {
			return true
		}
	}
	return false
}
