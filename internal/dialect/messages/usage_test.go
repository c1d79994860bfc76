package messages

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/dialecttest"
)

func TestUsageHasItsParts(t *testing.T) {
	const want = `{"input_tokens":40,"cache_creation_input_tokens":50,"cache_read_input_tokens":10,"output_tokens":50,` +
		`"output_tokens_details":{"thinking_tokens":6},"server_tool_use":{"web_fetch_requests":0,"web_search_requests":9}`
	a := &dialect.Answer{Usage: dialecttest.Usage}
	if got := string(appendUsage(nil, a)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	whole := string((&writer{}).Answer(nil, a))
	if !strings.Contains(whole, `"cache_creation":{"ephemeral_1h_input_tokens":30,"ephemeral_5m_input_tokens":20}`) || !json.Valid([]byte(whole)) {
		t.Errorf("%s", whole)
	}
}
