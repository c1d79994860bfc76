package bedrock

import (
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// finishReason translates Converse's stop reason. An unknown word is an error, and
// so is one for an answer that cannot be used.
func finishReason(k upstream.Call, stop []byte) (providers.FinishReason, *providers.Error) {
	switch string(stop) {
	case "end_turn", "stop_sequence":
		return providers.FinishStop, nil
	case "max_tokens", "model_context_window_exceeded":
		return providers.FinishLength, nil
	case "tool_use":
		return providers.FinishToolCalls, nil
	case "guardrail_intervened", "content_filtered":
		return providers.FinishContentFilter, nil
	case "":
		return "", k.Invalid("an end without a stop reason")
	}
	if strings.HasPrefix(string(stop), "malformed_") {
		return "", reported(k, string(stop), "")
	}
	return "", k.Invalid("an answer that ended with the unknown stop reason", strconv.Quote(k.Redact(string(stop))))
}

// readUsage reads the usage of an answer, and its tier, from the value that has both.
// The tokens read from and written to a cache are part of the prompt, which
// inputTokens leaves out. cacheDetails say how long the written tokens are kept.
func readUsage(answer *fastjson.Value, usage *providers.Usage) {
	v := answer.Get("usage")
	if v == nil || v.Type() != fastjson.TypeObject {
		return
	}
	if !upstream.Countable(v.Get("inputTokens"), v.Get("outputTokens"), v.Get("cacheReadInputTokens"), v.Get("cacheWriteInputTokens")) {
		return
	}
	cached, written, hour := upstream.Tokens(v.Get("cacheReadInputTokens")), upstream.Tokens(v.Get("cacheWriteInputTokens")), int64(0)
	for _, kept := range v.GetArray("cacheDetails") {
		if string(kept.GetStringBytes("ttl")) == "1h" {
			hour = min(hour+upstream.Tokens(kept.Get("inputTokens")), written)
		}
	}
	u := providers.Usage{
		PromptTokens:     upstream.Tokens(v.Get("inputTokens")) + cached + written,
		CompletionTokens: upstream.Tokens(v.Get("outputTokens")),
		CachedTokens:     cached, CacheWriteTokens: written - hour, CacheWriteHourTokens: hour,
		Tier: upstream.Tier(answer.GetStringBytes("serviceTier", "type")),
	}
	u.TotalTokens = max(u.PromptTokens+u.CompletionTokens, upstream.Tokens(v.Get("totalTokens")))
	if u.TotalTokens > 0 {
		*usage = u
	}
}

// describe reads {"message":…}, {"Message":…} and {"__type":…}, also
// wrapped as {"Output":{…}}. It reports whether it found anything.
func describe(k upstream.Call, e *providers.Error, v *fastjson.Value) bool {
	if v.Type() != fastjson.TypeObject {
		return false
	}
	if inner := v.Get("Output"); inner != nil && inner.Type() == fastjson.TypeObject {
		v = inner
	}
	found := false
	if word := errorWord(string(v.GetStringBytes("__type"))); word != "" {
		e.Code, found = k.Redact(word), true
	}
	for _, name := range [...]string{"message", "Message", "originalMessage"} {
		if text := v.GetStringBytes(name); len(text) > 0 {
			e.Message, found = k.Redact(string(text)), true
			break
		}
	}
	return found
}

// errorWord is the name of an error without the namespace before it and the
// URL behind it: com.amazon.coral.service#AccessDeniedException:http://….
func errorWord(text string) string {
	text, _, _ = strings.Cut(text, ":")
	if i := strings.LastIndexByte(text, '#'); i >= 0 {
		text = text[i+1:]
	}
	return strings.TrimSpace(text)
}

// reported is the error that an answer holds.
func reported(k upstream.Call, code, message string) *providers.Error {
	e := k.Error(providers.Reported)
	e.Code, e.Message = k.Redact(code), k.Redact(message)
	return e
}
