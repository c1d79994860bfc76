package anthropic

import (
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// TestUsage has usages as the API sends them: in message_start, with the counts known
// of them in message_delta.
func TestUsage(t *testing.T) {
	const (
		before = `"usage":{"input_tokens":9,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"output_tokens":`
		after  = `,"service_tier":"standard"}`
	)
	with := func(u providers.Usage) providers.Usage {
		u.TotalTokens = u.PromptTokens + u.CompletionTokens
		return u
	}
	said := func(text, usage string) string {
		for _, output := range []string{"1", "50"} {
			text = strings.Replace(text, before+output+after, `"usage":`+usage, 1)
		}
		return text
	}
	// The end says the tokens of the answer alone, as a running total.
	end := "event: message_delta\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":50}}` + "\n\n"
	stop := "event: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n"
	subject.CheckUsage(t,
		func(usage string) pt.Reply {
			r := answer("a", "end_turn", 50)
			r.Body[0] = said(r.Body[0], usage)
			return r
		},
		func(usage string) pt.Reply {
			return pt.SSE(said(messageStart, strings.Replace(usage, `"output_tokens":50`, `"output_tokens":1`, 1)), blockStart, textDelta("a"), blockStop, end, stop)
		},
		func(usage string) pt.Reply {
			return pt.Ended(pt.Cut, pt.SSE(said(messageStart, usage), blockStart, textDelta("a")))
		},
		[]pt.UsageTest{
			{Name: "no cache", Said: `{"input_tokens":100,"output_tokens":50,"service_tier":"standard"}`, Want: with(providers.Usage{PromptTokens: 100, CompletionTokens: 50})},
			{Name: "a count that makes no sense", Said: `{"input_tokens":1e300,"output_tokens":50}`, Want: providers.Usage{}},
			{Name: "read from the cache", Said: `{"input_tokens":100,"cache_read_input_tokens":40,"output_tokens":50}`, Want: with(providers.Usage{PromptTokens: 140, CompletionTokens: 50, CachedTokens: 40})},
			{Name: "written for minutes, as it was", Said: `{"input_tokens":100,"cache_creation_input_tokens":30,"output_tokens":50}`, Want: with(providers.Usage{PromptTokens: 130, CompletionTokens: 50, CacheWriteTokens: 30})},
			{Name: "written for both times", Said: `{"input_tokens":100,"cache_creation_input_tokens":30,"cache_read_input_tokens":40,"cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":20},"output_tokens":50}`,
				Want: with(providers.Usage{PromptTokens: 170, CompletionTokens: 50, CachedTokens: 40, CacheWriteTokens: 10, CacheWriteHourTokens: 20})},
			{Name: "written, without the sum", Said: `{"input_tokens":100,"cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":20},"output_tokens":50}`,
				Want: with(providers.Usage{PromptTokens: 130, CompletionTokens: 50, CacheWriteTokens: 10, CacheWriteHourTokens: 20})},
			{Name: "null parts", Said: `{"input_tokens":100,"cache_creation_input_tokens":null,"cache_creation":null,"server_tool_use":null,"service_tier":null,"output_tokens":50}`, Want: with(providers.Usage{PromptTokens: 100, CompletionTokens: 50})},
			{Name: "tools of the API", Said: `{"input_tokens":100,"output_tokens":50,"server_tool_use":{"web_search_requests":3,"web_fetch_requests":2,"code_execution_requests":1},"service_tier":"batch"}`,
				Want: with(providers.Usage{PromptTokens: 100, CompletionTokens: 50, WebSearches: 3, CodeExecutions: 1, Tier: "batch"})},
			{Name: "thoughts", Said: `{"input_tokens":100,"output_tokens":50,"output_tokens_details":{"thinking_tokens":30}}`, Want: with(providers.Usage{PromptTokens: 100, CompletionTokens: 50, ReasoningTokens: 30})},
			{Name: "priority", Said: `{"input_tokens":100,"output_tokens":50,"service_tier":"priority"}`, Want: with(providers.Usage{PromptTokens: 100, CompletionTokens: 50, Tier: "priority"})},
		})
}

// TestUsageGrows checks that the usage of message_delta replaces that of
// message_start, and is not added to it. A search is known at the end alone.
func TestUsageGrows(t *testing.T) {
	start := strings.Replace(messageStart, `"cache_read_input_tokens":0`, `"cache_read_input_tokens":7`, 1)
	end := "event: message_delta\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"input_tokens":2000,"cache_creation_input_tokens":0,"cache_read_input_tokens":7,"output_tokens":50,"server_tool_use":{"web_search_requests":1}}}` + "\n\n"
	o := subject.Receive(t, pt.SSE(start, blockStart, textDelta("a"), blockStop, end, end, "event: message_stop\n"+`data: {"type":"message_stop"}`+"\n\n"), true)
	if want := (providers.Usage{PromptTokens: 2007, CompletionTokens: 50, TotalTokens: 2057, CachedTokens: 7, WebSearches: 1}); o.Err != nil || o.Result.Usage != want {
		t.Errorf("%v, %+v", o.Err, o.Result.Usage)
	}
}
