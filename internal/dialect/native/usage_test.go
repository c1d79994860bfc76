package native

import (
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/providers"
)

// parts is a usage that has a number for each part that a caller may get.
var parts = providers.Usage{
	PromptTokens: 100, CompletionTokens: 50, TotalTokens: 150, CachedTokens: 10, CacheWriteTokens: 20, CacheWriteHourTokens: 30,
	PromptAudioTokens: 4, PromptImageTokens: 5, ReasoningTokens: 6, CompletionAudioTokens: 7, CompletionImageTokens: 8, WebSearches: 9,
}

func TestUsageHasItsParts(t *testing.T) {
	const want = `,"usage":{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150,"cached_tokens":10,"cache_write_tokens":50,"reasoning_tokens":6}`
	if got := string(appendEnding(nil, &dialect.Answer{Usage: parts})); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := string(appendEnding(nil, &dialect.Answer{Usage: providers.Usage{Tier: "flex"}})); got != "" {
		t.Errorf("%s of a usage without tokens", got)
	}
}
