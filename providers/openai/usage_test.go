package openai

import (
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

const usageOfAll = `{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}`

// TestUsageOfServices has usages as the services send them.
func TestUsageOfServices(t *testing.T) {
	with := func(u providers.Usage) providers.Usage {
		u.PromptTokens, u.CompletionTokens, u.TotalTokens = 100, 50, 150
		return u
	}
	const counts = `"prompt_tokens":100,"completion_tokens":50,"total_tokens":150`
	chunk := func(said string) string {
		usage, tier, _ := strings.Cut(said, " ")
		return strings.NewReplacer(usageOfAll, usage, `"service_tier":"default"`, `"service_tier":"`+tier+`"`).Replace(pt.UsageChunk(9, 2))
	}
	subject.CheckUsage(t,
		func(said string) pt.Reply {
			usage, tier, _ := strings.Cut(said, " ")
			return pt.JSON(200, `{"model":"m","service_tier":"`+tier+`","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}],"usage":`+usage+`}`)
		},
		func(said string) pt.Reply {
			return pt.SSE(pt.RoleChunk(), pt.ContentChunk("a"), pt.FinishChunk("stop"), chunk(said), pt.Done)
		},
		func(said string) pt.Reply { // as vLLM counts with continuous_usage_stats
			return pt.Ended(pt.Cut, pt.SSE(pt.RoleChunk(), pt.ContentChunk("a"), chunk(said), pt.ContentChunk("b")))
		},
		[]pt.UsageTest{
			{Name: "OpenAI", Said: `{` + counts + `,"prompt_tokens_details":{"cached_tokens":40,"audio_tokens":7},"completion_tokens_details":{"reasoning_tokens":30,"audio_tokens":5,"accepted_prediction_tokens":1,"rejected_prediction_tokens":2}} default`,
				Want: with(providers.Usage{CachedTokens: 40, PromptAudioTokens: 7, ReasoningTokens: 30, CompletionAudioTokens: 5})},
			{Name: "a count that makes no sense", Said: `{"prompt_tokens":99999999999999999999999,"completion_tokens":1,"total_tokens":2} default`, Want: providers.Usage{}},
			{Name: "no count makes sense", Said: `{"prompt_tokens":1e308,"completion_tokens":1e400,"total_tokens":1.5} default`, Want: providers.Usage{}},
			{Name: "a negative count", Said: `{"prompt_tokens":5,"completion_tokens":-1,"total_tokens":4} default`, Want: providers.Usage{}},
			{Name: "a text", Said: `{"prompt_tokens":"5","completion_tokens":1,"total_tokens":6} default`, Want: providers.Usage{PromptTokens: 5, CompletionTokens: 1, TotalTokens: 6}},
			{Name: "texts", Said: `{"prompt_tokens":"5","completion_tokens":"1","total_tokens":6} default`, Want: providers.Usage{}},
			{Name: "a text and no sum", Said: `{"prompt_tokens":5,"completion_tokens":"1"} default`, Want: providers.Usage{}},
			{Name: "flex", Said: `{` + counts + `} flex`, Want: with(providers.Usage{Tier: "flex"})},
			{Name: "priority", Said: `{` + counts + `} priority`, Want: with(providers.Usage{Tier: "priority"})},
			{Name: "an unknown tier", Said: `{` + counts + `} on_demand`, Want: with(providers.Usage{})},
			{Name: "DeepSeek", Said: `{` + counts + `,"prompt_cache_hit_tokens":60,"prompt_cache_miss_tokens":40}`, Want: with(providers.Usage{CachedTokens: 60})},
			{Name: "others", Said: `{` + counts + `,"cached_tokens":60}`, Want: with(providers.Usage{CachedTokens: 60})},
			{Name: "null details", Said: `{` + counts + `,"prompt_tokens_details":null,"completion_tokens_details":null,"cost":null}`, Want: with(providers.Usage{})},
			{Name: "OpenRouter", Said: `{` + counts + `,"cost":0.95,"is_byok":false,"cost_details":{"upstream_inference_cost":19},"prompt_tokens_details":{"cached_tokens":10,"cache_write_tokens":20,"audio_tokens":3,"image_tokens":4},"completion_tokens_details":{"reasoning_tokens":5,"image_tokens":6},"server_tool_use":{"web_search_requests":2}}`,
				Want: with(providers.Usage{CachedTokens: 10, CacheWriteTokens: 20, PromptAudioTokens: 3, PromptImageTokens: 4, ReasoningTokens: 5, CompletionImageTokens: 6, WebSearches: 2, Cost: 0.95, HasCost: true})},
			{Name: "OpenRouter, by the account's own key", Said: `{` + counts + `,"cost":0.05,"is_byok":true,"cost_details":{"upstream_inference_cost":0.5}}`, Want: with(providers.Usage{Cost: 0.55, HasCost: true})},
			{Name: "a free model of OpenRouter", Said: `{` + counts + `,"cost":0}`, Want: with(providers.Usage{HasCost: true})},
			{Name: "xAI", Said: `{"prompt_tokens":100,"completion_tokens":20,"total_tokens":150,"prompt_tokens_details":{"text_tokens":90,"audio_tokens":0,"image_tokens":10,"cached_tokens":5},"completion_tokens_details":{"reasoning_tokens":30},"num_sources_used":3,"cost_in_usd_ticks":318319000}`,
				Want: with(providers.Usage{CachedTokens: 5, PromptImageTokens: 10, ReasoningTokens: 30, WebSearches: 3, Cost: 0.0318319, HasCost: true})},
			{Name: "xAI's tools", Said: `{` + counts + `,"num_sources_used":9,"server_side_tool_usage_details":{"web_search_calls":2,"code_interpreter_calls":3,"file_search_calls":4}}`,
				Want: with(providers.Usage{WebSearches: 2, CodeExecutions: 3, FileSearches: 4})},
			{Name: "Perplexity", Said: `{` + counts + `,"search_context_size":"low","num_search_queries":2,"reasoning_tokens":4,"cost":{"input_tokens_cost":0.1,"output_tokens_cost":0.2,"request_cost":0.005,"total_cost":0.305}}`,
				Want: with(providers.Usage{ReasoningTokens: 4, WebSearches: 2, Cost: 0.305, HasCost: true})},
			{Name: "DeepInfra", Said: `{` + counts + `,"estimated_cost":0.0001}`, Want: with(providers.Usage{Cost: 0.0001, HasCost: true})},
			{Name: "parts above the whole", Said: `{` + counts + `,"prompt_tokens_details":{"cached_tokens":90,"cache_write_tokens":90,"audio_tokens":101,"image_tokens":101},"completion_tokens_details":{"reasoning_tokens":51,"audio_tokens":51,"image_tokens":51}}`,
				Want: with(providers.Usage{CachedTokens: 90, CacheWriteTokens: 10, PromptAudioTokens: 100, ReasoningTokens: 50, CompletionAudioTokens: 50})},
			{Name: "absurd", Said: `{` + counts + `,"prompt_tokens_details":{"cached_tokens":-1},"cost":-1,"cost_in_usd_ticks":"1","estimated_cost":1e300}`, Want: with(providers.Usage{})},
			{Name: "costs without tokens", Said: `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,"cost":1}`},
		})
}
