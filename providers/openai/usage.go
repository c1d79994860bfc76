package openai

import (
	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// readUsage keeps the last usage that says anything: some services send running
// totals, some send zeros before the end. The tier is that of the chunk's
// service_tier.
func readUsage(v *fastjson.Value, tier []byte, usage *providers.Usage) {
	if v.Type() != fastjson.TypeObject {
		return
	}
	u := providers.Usage{
		PromptTokens:     upstream.Tokens(v.Get("prompt_tokens")),
		CompletionTokens: upstream.Tokens(v.Get("completion_tokens")),
		TotalTokens:      upstream.Tokens(v.Get("total_tokens")),
		Tier:             upstream.Tier(tier),
	}
	if !upstream.Countable(v.Get("prompt_tokens"), v.Get("completion_tokens")) && !derive(v, &u) {
		*usage = providers.Usage{}
		return
	}
	if u.TotalTokens == 0 {
		u.TotalTokens = u.PromptTokens + u.CompletionTokens
	}
	if u.TotalTokens == 0 {
		return
	}
	u.CachedTokens = first(v, cachedTokens)
	if d := v.Get("prompt_tokens_details"); d != nil {
		u.CacheWriteTokens = upstream.Tokens(d.Get("cache_write_tokens"))
		u.PromptAudioTokens = upstream.Tokens(d.Get("audio_tokens"))
		u.PromptImageTokens = upstream.Tokens(d.Get("image_tokens"))
	}
	u.ReasoningTokens = first(v, reasoningTokens)
	if d := v.Get("completion_tokens_details"); d != nil {
		u.CompletionAudioTokens = upstream.Tokens(d.Get("audio_tokens"))
		u.CompletionImageTokens = upstream.Tokens(d.Get("image_tokens"))
	}
	if u.TotalTokens == u.PromptTokens+u.CompletionTokens+u.ReasoningTokens {
		u.CompletionTokens += u.ReasoningTokens // xAI counts them apart
	}
	u.WebSearches = first(v, webSearches)
	u.FileSearches = upstream.Tokens(v.Get("server_side_tool_usage_details", "file_search_calls"))
	u.CodeExecutions = upstream.Tokens(v.Get("server_side_tool_usage_details", "code_interpreter_calls"))
	u.Cost, u.HasCost = cost(v)
	upstream.KeepWithin(&u)
	*usage = u
}

// derive sets the one of prompt and completion that is no number to what the other leaves
// of the total, and reports whether that is possible.
func derive(v *fastjson.Value, u *providers.Usage) bool {
	left := u.TotalTokens - u.PromptTokens - u.CompletionTokens
	prompt, completion := v.Get("prompt_tokens"), v.Get("completion_tokens")
	switch {
	case left <= 0 || prompt == nil || completion == nil:
		return false
	case prompt.Type() != fastjson.TypeNumber && u.CompletionTokens > 0:
		u.PromptTokens = left
	case completion.Type() != fastjson.TypeNumber && u.PromptTokens > 0:
		u.CompletionTokens = left
	default:
		return false
	}
	return true
}

// The places where services say the same in their own ways.
var (
	// cachedTokens: OpenAI's, DeepSeek's, and one that others have.
	cachedTokens = [][]string{{"prompt_tokens_details", "cached_tokens"}, {"prompt_cache_hit_tokens"}, {"cached_tokens"}}
	// reasoningTokens: OpenAI's, and Perplexity's.
	reasoningTokens = [][]string{{"completion_tokens_details", "reasoning_tokens"}, {"reasoning_tokens"}}
	// webSearches: Perplexity's, OpenRouter's, and xAI's, whose older models are paid
	// for by the source.
	webSearches = [][]string{{"num_search_queries"}, {"server_tool_use", "web_search_requests"}, {"server_side_tool_usage_details", "web_search_calls"}, {"num_sources_used"}}
)

// first returns the first count that is above zero.
func first(v *fastjson.Value, places [][]string) int64 {
	for _, place := range places {
		if n := upstream.Tokens(v.Get(place...)); n > 0 {
			return n
		}
	}
	return 0
}

// ticks is how many of xAI's ticks are a US dollar.
const ticks = 1e10

// cost returns the answer's price in US dollars, as the service says: OpenRouter in
// cost, Perplexity in cost.total_cost, DeepInfra in estimated_cost, and xAI in ticks.
// Where OpenRouter called a provider by the account's own key (is_byok), that one's
// bill is added to its own.
func cost(v *fastjson.Value) (dollars float64, said bool) {
	c := v.Get("cost")
	if c != nil && c.Type() == fastjson.TypeObject {
		c = c.Get("total_cost")
	}
	if dollars, said = amount(c); said {
		if v.GetBool("is_byok") {
			theirs, _ := amount(v.Get("cost_details", "upstream_inference_cost"))
			dollars += theirs
		}
		return dollars, true
	}
	if dollars, said = amount(v.Get("cost_in_usd_ticks")); said {
		return dollars / ticks, true
	}
	return amount(v.Get("estimated_cost"))
}

// amount reads an amount of money. It is false if there is none that makes sense.
func amount(v *fastjson.Value) (float64, bool) {
	if v == nil || v.Type() != fastjson.TypeNumber {
		return 0, false
	}
	f, err := v.Float64()
	if err != nil || !(f >= 0 && f <= absurd) {
		return 0, false
	}
	return f, true
}

// absurd is beyond any real cost of an answer, in ticks too.
const absurd = 1e15
