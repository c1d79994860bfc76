package responses

import (
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/dialecttest"
)

func TestUsageHasItsParts(t *testing.T) {
	const want = `],"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":10,"cache_write_tokens":50},` +
		`"output_tokens":50,"output_tokens_details":{"reasoning_tokens":6},"total_tokens":150}`
	if got := string((&writer{}).appendEnd(nil, &dialect.Answer{Usage: dialecttest.Usage})); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
