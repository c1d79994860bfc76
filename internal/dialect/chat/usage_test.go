package chat

import (
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/dialecttest"
)

func TestUsageHasItsParts(t *testing.T) {
	const want = `{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150,` +
		`"prompt_tokens_details":{"cached_tokens":10,"cache_write_tokens":50,"audio_tokens":4,"image_tokens":5},` +
		`"completion_tokens_details":{"reasoning_tokens":6,"audio_tokens":7,"image_tokens":8,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`
	if got := string(appendUsage(nil, &dialect.Answer{Usage: dialecttest.Usage})); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
