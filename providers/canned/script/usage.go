package script

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Usage is the member usage. The first three members, if absent, are counted.
type Usage struct {
	PromptTokens     *int64 `json:"prompt_tokens"`
	CompletionTokens *int64 `json:"completion_tokens"`
	ReasoningTokens  *int64 `json:"reasoning_tokens"`

	CachedTokens          int64  `json:"cached_tokens"`
	CacheWriteTokens      int64  `json:"cache_write_tokens"`
	CacheWriteHourTokens  int64  `json:"cache_write_hour_tokens"`
	PromptAudioTokens     int64  `json:"prompt_audio_tokens"`
	PromptImageTokens     int64  `json:"prompt_image_tokens"`
	CompletionAudioTokens int64  `json:"completion_audio_tokens"`
	CompletionImageTokens int64  `json:"completion_image_tokens"`
	WebSearches           int64  `json:"web_searches"`
	FileSearches          int64  `json:"file_searches"`
	CodeExecutions        int64  `json:"code_executions"`
	Tier                  string `json:"tier"`

	// Cost is the answer's price in US dollars; nil: the provider does not say.
	Cost *float64 `json:"cost_usd"`

	// None reports that the provider says nothing: the member is false.
	None bool `json:"-"`
}

// usageMembers are the members of usage.
var usageMembers = []string{
	"prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens", "cache_write_hour_tokens", "prompt_audio_tokens", "prompt_image_tokens",
	"reasoning_tokens", "completion_audio_tokens", "completion_image_tokens", "web_searches", "file_searches", "code_executions", "tier", "cost_usd",
}

// maxTokens bounds a count of tokens.
const maxTokens = 1_000_000_000

// parseUsage reads counts of tokens, and a cost.
func parseUsage(raw json.RawMessage) (Usage, error) {
	if string(raw) == "false" {
		return Usage{None: true}, nil
	}
	var u Usage
	if err := decode(raw, &u, usageMembers...); err != nil {
		return Usage{}, err
	}
	for _, n := range []*int64{
		u.PromptTokens, u.CompletionTokens, u.ReasoningTokens, &u.CachedTokens, &u.CacheWriteTokens, &u.CacheWriteHourTokens, &u.PromptAudioTokens,
		&u.PromptImageTokens, &u.CompletionAudioTokens, &u.CompletionImageTokens, &u.WebSearches, &u.FileSearches, &u.CodeExecutions,
	} {
		if n != nil && (*n < 0 || *n > maxTokens) {
			return Usage{}, fmt.Errorf("has counts from 0 to %d", maxTokens)
		}
	}
	switch u.Tier {
	case "", "batch", "flex", "priority":
	default:
		return Usage{}, fmt.Errorf("has the tier %q, but there are batch, flex and priority", u.Tier)
	}
	if u.Cost != nil && (*u.Cost < 0 || *u.Cost > 1e6) {
		return Usage{}, errors.New("has a cost_usd that is none: give US dollars, from 0 to a million")
	}
	return u, nil
}

// Begin sets the usage that a provider may report before the answer: that of a prompt
// with so many tokens, unless the script has another number.
func (u *Usage) Begin(usage *providers.Usage, prompt int64) {
	if u.PromptTokens != nil {
		prompt = *u.PromptTokens
	}
	usage.PromptTokens, usage.TotalTokens = prompt, prompt
	usage.CachedTokens, usage.CacheWriteTokens, usage.CacheWriteHourTokens = u.CachedTokens, u.CacheWriteTokens, u.CacheWriteHourTokens
	usage.PromptAudioTokens, usage.PromptImageTokens, usage.Tier = u.PromptAudioTokens, u.PromptImageTokens, u.Tier
}

// End sets the usage that a provider reports with the end of the answer, of which usage
// has what was counted.
func (u *Usage) End(usage *providers.Usage) {
	if u.CompletionTokens != nil {
		usage.CompletionTokens = *u.CompletionTokens
	}
	if u.ReasoningTokens != nil {
		usage.ReasoningTokens = *u.ReasoningTokens
	}
	usage.TotalTokens = usage.PromptTokens + usage.CompletionTokens
	usage.CompletionAudioTokens, usage.CompletionImageTokens = u.CompletionAudioTokens, u.CompletionImageTokens
	usage.WebSearches, usage.FileSearches, usage.CodeExecutions = u.WebSearches, u.FileSearches, u.CodeExecutions
	if u.Cost != nil {
		usage.Cost, usage.HasCost = *u.Cost, true
	}
}
