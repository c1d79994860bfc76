package bedrock

import (
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// TestUsage has usages as Converse sends them, with the tier next to them.
func TestUsage(t *testing.T) {
	subject.CheckUsage(t,
		func(said string) pt.Reply {
			return pt.JSON(200, `{"output":{"message":{"content":[{"text":"a"}],"role":"assistant"}},"stopReason":"end_turn",`+said+`}`)
		},
		func(said string) pt.Reply {
			return streamed(start(), delta("a"), blockStop(), stop("end_turn"), event("metadata", `{"metrics":{"latencyMs":551},`+said+`}`))
		},
		nil,
		[]pt.UsageTest{
			{Name: "no cache", Said: `"usage":{"inputTokens":100,"outputTokens":50,"totalTokens":150},"serviceTier":{"type":"default"}`, Want: providers.Usage{PromptTokens: 100, CompletionTokens: 50, TotalTokens: 150}},
			{Name: "a count that makes no sense", Said: `"usage":{"inputTokens":-1,"outputTokens":50,"totalTokens":150}`, Want: providers.Usage{}},
			{Name: "a cache", Said: `"usage":{"inputTokens":100,"outputTokens":50,"totalTokens":220,"cacheReadInputTokens":40,"cacheWriteInputTokens":30}`,
				Want: providers.Usage{PromptTokens: 170, CompletionTokens: 50, TotalTokens: 220, CachedTokens: 40, CacheWriteTokens: 30}},
			{Name: "a cache by its times", Said: `"usage":{"inputTokens":100,"outputTokens":50,"totalTokens":220,"cacheReadInputTokens":40,"cacheWriteInputTokens":30,"cacheDetails":[{"ttl":"1h","inputTokens":20},{"ttl":"5m","inputTokens":10}]},"serviceTier":{"type":"priority"}`,
				Want: providers.Usage{PromptTokens: 170, CompletionTokens: 50, TotalTokens: 220, CachedTokens: 40, CacheWriteTokens: 10, CacheWriteHourTokens: 20, Tier: "priority"}},
			{Name: "times above the whole", Said: `"usage":{"inputTokens":100,"outputTokens":50,"totalTokens":180,"cacheWriteInputTokens":30,"cacheDetails":[{"ttl":"1h","inputTokens":20},{"ttl":"1h","inputTokens":20}]},"serviceTier":{"type":"flex"}`,
				Want: providers.Usage{PromptTokens: 130, CompletionTokens: 50, TotalTokens: 180, CacheWriteHourTokens: 30, Tier: "flex"}},
		})
}
