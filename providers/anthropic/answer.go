package anthropic

import (
	"strconv"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// usage is the API's count of tokens. Input tokens that went through the prompt
// cache are counted apart from the others; those written to it are all of them, of
// which writtenHour are kept for an hour.
type usage struct {
	input, written, writtenHour, cacheRead, output int64

	thinking             int64 // of output
	searches, executions int64
	tier                 string
	odd                  bool // one of the counts made no sense
}

// read takes in a usage object. The counts are running totals; a member that is
// absent or zero later on says nothing new.
func (u *usage) read(v *fastjson.Value) {
	if v == nil || v.Type() != fastjson.TypeObject {
		return
	}
	u.odd = u.odd || !upstream.Countable(v.Get("input_tokens"), v.Get("output_tokens"), v.Get("cache_creation_input_tokens"), v.Get("cache_read_input_tokens"))
	upstream.UpdateTokens(&u.input, v.Get("input_tokens"))
	upstream.UpdateTokens(&u.written, v.Get("cache_creation_input_tokens"))
	if by := v.Get("cache_creation"); by != nil {
		upstream.UpdateTokens(&u.writtenHour, by.Get("ephemeral_1h_input_tokens"))
		// Services that pass the API on may leave the sum out.
		u.written = max(u.written, u.writtenHour+upstream.Tokens(by.Get("ephemeral_5m_input_tokens")))
	}
	upstream.UpdateTokens(&u.cacheRead, v.Get("cache_read_input_tokens"))
	upstream.UpdateTokens(&u.output, v.Get("output_tokens"))
	upstream.UpdateTokens(&u.thinking, v.Get("output_tokens_details", "thinking_tokens"))
	if tools := v.Get("server_tool_use"); tools != nil {
		upstream.UpdateTokens(&u.searches, tools.Get("web_search_requests"))
		upstream.UpdateTokens(&u.executions, tools.Get("code_execution_requests"))
	}
	if tier := v.GetStringBytes("service_tier"); len(tier) > 0 {
		u.tier = upstream.Tier(tier)
	}
}

// result is the usage as the gateway counts it: the prompt is all that was read.
func (u *usage) result() providers.Usage {
	if u.odd {
		return providers.Usage{}
	}
	prompt := u.input + u.written + u.cacheRead
	hour := min(u.writtenHour, u.written)
	return providers.Usage{
		PromptTokens: prompt, CompletionTokens: u.output, TotalTokens: prompt + u.output,
		CachedTokens: u.cacheRead, CacheWriteTokens: u.written - hour, CacheWriteHourTokens: hour,
		ReasoningTokens: min(u.thinking, u.output), WebSearches: u.searches, CodeExecutions: u.executions, Tier: u.tier,
	}
}

// finishReason translates the API's stop_reason. An unknown word is an error, and
// so is one after which the answer goes on: pause_turn, of which only the API's
// own tools are the cause.
func finishReason(k upstream.Call, stop []byte) (providers.FinishReason, *providers.Error) {
	switch string(stop) {
	case "end_turn", "stop_sequence":
		return providers.FinishStop, nil
	case "max_tokens", "model_context_window_exceeded":
		return providers.FinishLength, nil
	case "tool_use":
		return providers.FinishToolCalls, nil
	case "refusal":
		return providers.FinishContentFilter, nil
	case "pause_turn":
		return "", k.Invalid("an answer that ended with pause_turn, before its end: nothing goes on with it")
	}
	return "", k.Invalid("an answer that ended with the unknown stop_reason", strconv.Quote(k.Redact(string(stop))))
}

// reported makes the error that an answer holds. It always returns one: it is
// called if the answer says that it is an error.
func reported(k upstream.Call, v *fastjson.Value) *providers.Error {
	e := k.Error(providers.Reported)
	describe(k, e, v)
	return e
}

// describe reads {"type":"error","error":{"type","message","details"}}, and
// {"error":"text"} and {"message":"text"} as proxies before the API write it.
// It reports whether it found anything. Other APIs call this one's type code;
// where details name a narrower one, that is the code.
func describe(k upstream.Call, e *providers.Error, v *fastjson.Value) bool {
	if v.Type() != fastjson.TypeObject {
		return false
	}
	inner := v.Get("error")
	if inner == nil || inner.Type() == fastjson.TypeNull {
		inner = v
	}
	switch inner.Type() {
	case fastjson.TypeString:
		e.Message = k.Text(inner)
		return e.Message != ""
	case fastjson.TypeObject:
	default:
		return false
	}
	e.Message = k.Text(inner.Get("message"))
	kind := k.Text(inner.Get("type"))
	if inner == v && kind == "error" {
		// The outermost type only says that this is an error.
		kind = ""
	}
	if e.Code = k.Text(inner.Get("details", "error_code")); e.Code == "" {
		e.Code = kind
	} else {
		e.Type = kind
	}
	return e.Message != "" || e.Code != ""
}

// isError reports whether a JSON value is an error and no part of an answer.
func isError(v *fastjson.Value) bool {
	return string(v.GetStringBytes("type")) == "error" || upstream.IsError(v)
}
