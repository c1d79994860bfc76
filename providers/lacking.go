package providers

import (
	"fmt"
	"net/http"
	"slices"
)

// Lacking returns the parameters of p that are set and that a provider does not
// have. has are the ones that it has, by their names in definitions. The error is
// for a parameter that must not be left out, because the answer would not be what
// was asked for: stop, a response_format other than text, and tools unless none
// may be called. It is an *Error with the given name of the provider, after which
// the next target is tried.
func (p *Parameters) Lacking(provider string, has ...string) (leftOut []string, err error) {
	caller := p.FromCaller()
	noTools := p.ToolChoice != nil && p.ToolChoice.Mode == ToolsNone
	for _, parameter := range [...]struct {
		name          string
		set, decisive bool
	}{
		{"temperature", p.Temperature != nil, false},
		{"max_tokens", p.MaxTokens != nil, false},
		{"top_p", p.TopP != nil, false},
		{"top_k", p.TopK != nil, false},
		{"frequency_penalty", p.FrequencyPenalty != nil, false},
		{"presence_penalty", p.PresencePenalty != nil, false},
		{"seed", p.Seed != nil, false},
		{"reasoning_effort", p.ReasoningEffort != "", false},
		{"thinking", p.Thinking != nil, false},
		{"parallel_tool_calls", p.ParallelToolCalls != nil && len(p.Tools) > 0, false},
		{"logprobs", p.Logprobs != nil, false},
		{"cache_control", caller.Marks, false},
		{"prompt_cache_key", caller.CacheKey != "", false},
		{"prompt_cache_retention", caller.CacheRetention != "", false},
		{"service_tier", caller.Tier != "", false},
		{"betas", len(caller.Betas) > 0, false},
		{"attribution", caller.Attribution != "", false},
		{"web_search", caller.Search != nil, false},
		{"user_location", caller.Search != nil && caller.Search.Location != nil, false},
		{"max_uses", caller.Search != nil, false},
		{"search_context_size", caller.Search != nil && caller.Search.ContextSize != "", false},
		{"stop", len(p.Stop) > 0, true},
		{"response_format", p.ResponseFormat != nil && p.ResponseFormat.Type != FormatText, true},
		{"tools", len(p.Tools) > 0, !noTools},
	} {
		if !parameter.set || slices.Contains(has, parameter.name) {
			continue
		}
		if parameter.decisive {
			return nil, &Error{
				Provider: provider, Kind: Status, Status: http.StatusBadRequest, Param: parameter.name, Lacks: parameter.name,
				Reason: fmt.Sprintf("%s has no %s, without which the answer would be another", provider, parameter.name),
			}
		}
		leftOut = append(leftOut, parameter.name)
	}
	return leftOut, nil
}

// leftOutMedia is the form of LeftOutMedia. It counts messages from 1, as errors do.
const leftOutMedia = "media in message %d"

// LeftOutMedia returns the name, in Result.LeftOut, of media in the tools' results of a
// message of the request, from 0, that a provider takes nowhere.
func LeftOutMedia(at int) string { return fmt.Sprintf(leftOutMedia, at+1) }

// MessageOfMedia undoes LeftOutMedia. ok is false for any other name.
func MessageOfMedia(name string) (at int, ok bool) {
	n, err := fmt.Sscanf(name, leftOutMedia, &at)
	return at - 1, n == 1 && err == nil
}

// LacksPart returns the error for a part that a provider does not have: an *Error with
// the given name of the provider, after which the next target is tried. at counts the
// request's messages from 0.
func LacksPart(provider string, at int, part string) error {
	return &Error{
		Provider: provider, Kind: Status, Status: http.StatusBadRequest, Lacks: part,
		Reason: fmt.Sprintf("%s takes no %s, which message %d has", provider, part, at+1),
	}
}
