package gemini

import (
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// TestUsage has usages as the API sends them: of whole answers, and running totals of
// streams.
func TestUsage(t *testing.T) {
	chunk := func(said, rest string) string {
		usage, candidate, _ := strings.Cut(said, " ")
		if candidate != "" {
			candidate = "," + candidate
		}
		return `{"candidates":[{"content":{"parts":[{"text":"a"}],"role":"model"},` + rest + `"index":0` + candidate + `}],"usageMetadata":` + usage + `,"modelVersion":"m"}`
	}
	subject.CheckUsage(t,
		func(said string) pt.Reply { return pt.JSON(200, chunk(said, `"finishReason":"STOP",`)) },
		func(said string) pt.Reply {
			return pt.SSE(event(chunk(`{"promptTokenCount":1,"candidatesTokenCount":1,"totalTokenCount":2}`, "")), event(chunk(said, `"finishReason":"STOP",`)))
		},
		func(said string) pt.Reply { return pt.Ended(pt.Cut, pt.SSE(event(chunk(said, "")))) },
		[]pt.UsageTest{
			{Name: "text", Said: `{"promptTokenCount":100,"candidatesTokenCount":50,"totalTokenCount":150,"promptTokensDetails":[{"modality":"TEXT","tokenCount":100}],"trafficType":"ON_DEMAND"}`,
				Want: providers.Usage{PromptTokens: 100, CompletionTokens: 50, TotalTokens: 150}},
			{Name: "a count that makes no sense", Said: `{"promptTokenCount":1e300,"candidatesTokenCount":50,"totalTokenCount":150}`, Want: providers.Usage{}},
			{Name: "thoughts are apart", Said: `{"promptTokenCount":100,"candidatesTokenCount":20,"thoughtsTokenCount":30,"totalTokenCount":150}`,
				Want: providers.Usage{PromptTokens: 100, CompletionTokens: 50, TotalTokens: 150, ReasoningTokens: 30}},
			{Name: "the cache is not", Said: `{"promptTokenCount":100,"cachedContentTokenCount":60,"candidatesTokenCount":50,"totalTokenCount":150,"cacheTokensDetails":[{"modality":"TEXT","tokenCount":60}]}`,
				Want: providers.Usage{PromptTokens: 100, CompletionTokens: 50, TotalTokens: 150, CachedTokens: 60}},
			{Name: "tools of the API", Said: `{"promptTokenCount":70,"toolUsePromptTokenCount":30,"candidatesTokenCount":50,"totalTokenCount":150,"toolUsePromptTokensDetails":[{"modality":"TEXT","tokenCount":30}]}`,
				Want: providers.Usage{PromptTokens: 100, CompletionTokens: 50, TotalTokens: 150}},
			{Name: "sounds and images", Said: `{"promptTokenCount":100,"candidatesTokenCount":50,"totalTokenCount":150,"promptTokensDetails":[{"modality":"TEXT","tokenCount":10},{"modality":"AUDIO","tokenCount":32},{"modality":"IMAGE","tokenCount":58}],"candidatesTokensDetails":[{"modality":"IMAGE","tokenCount":40},{"modality":"AUDIO","tokenCount":5}]}`,
				Want: providers.Usage{PromptTokens: 100, CompletionTokens: 50, TotalTokens: 150, PromptAudioTokens: 32, PromptImageTokens: 58, CompletionImageTokens: 40, CompletionAudioTokens: 5}},
			{Name: "flex of Vertex AI", Said: `{"promptTokenCount":100,"candidatesTokenCount":50,"totalTokenCount":150,"trafficType":"ON_DEMAND_FLEX"}`, Want: providers.Usage{PromptTokens: 100, CompletionTokens: 50, TotalTokens: 150, Tier: "flex"}},
			{Name: "priority of Google AI", Said: `{"promptTokenCount":100,"candidatesTokenCount":50,"totalTokenCount":150,"serviceTier":"priority"}`, Want: providers.Usage{PromptTokens: 100, CompletionTokens: 50, TotalTokens: 150, Tier: "priority"}},
			{Name: "searches", Said: `{"promptTokenCount":100,"candidatesTokenCount":50,"totalTokenCount":150} "groundingMetadata":{"webSearchQueries":["a","b"]}`, Want: providers.Usage{PromptTokens: 100, CompletionTokens: 50, TotalTokens: 150, WebSearches: 2}},
			{Name: "parts above the whole", Said: `{"promptTokenCount":100,"cachedContentTokenCount":101,"candidatesTokenCount":50,"totalTokenCount":150,"promptTokensDetails":[{"modality":"AUDIO","tokenCount":101}]}`,
				Want: providers.Usage{PromptTokens: 100, CompletionTokens: 50, TotalTokens: 150, CachedTokens: 100, PromptAudioTokens: 100}},
		})
}
