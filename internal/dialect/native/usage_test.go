package native

import (
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/dialecttest"
	"github.com/cadenza-gateway/cadenza/providers"
)

func TestUsageHasItsParts(t *testing.T) {
	const want = `,"usage":{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150,"cached_tokens":10,"cache_write_tokens":50,"reasoning_tokens":6}`
	if got := string(appendEnding(nil, &dialect.Answer{Usage: dialecttest.Usage})); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := string(appendEnding(nil, &dialect.Answer{Usage: providers.Usage{Tier: "flex"}})); got != "" {
		t.Errorf("%s of a usage without tokens", got)
	}
}
