package responses

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
	const want = `],"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":10,"cache_write_tokens":50},` +
		`"output_tokens":50,"output_tokens_details":{"reasoning_tokens":6},"total_tokens":150}`
	if got := string((&writer{}).appendEnd(nil, &dialect.Answer{Usage: parts})); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
