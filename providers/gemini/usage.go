package gemini

import (
	"bytes"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// readUsage takes in a count of tokens so far. A member that is absent or zero
// says nothing new. The prompt is all that was read, the results of the API's
// own tools included, and the completion all that was written, thoughts included.
func readUsage(v *fastjson.Value, usage *providers.Usage) {
	if v == nil || v.Type() != fastjson.TypeObject {
		return
	}
	if !upstream.Countable(v.Get("promptTokenCount"), v.Get("toolUsePromptTokenCount"), v.Get("thoughtsTokenCount"), v.Get("candidatesTokenCount")) {
		*usage = providers.Usage{}
		return
	}
	prompt := upstream.Tokens(v.Get("promptTokenCount")) + upstream.Tokens(v.Get("toolUsePromptTokenCount"))
	thoughts := upstream.Tokens(v.Get("thoughtsTokenCount"))
	completion := upstream.Tokens(v.Get("candidatesTokenCount")) + thoughts
	if total := upstream.Tokens(v.Get("totalTokenCount")); completion == 0 && prompt > 0 && total > prompt {
		completion = total - prompt
	}
	update(&usage.PromptTokens, prompt)
	update(&usage.CompletionTokens, completion)
	update(&usage.CachedTokens, upstream.Tokens(v.Get("cachedContentTokenCount")))
	update(&usage.ReasoningTokens, thoughts)
	read, written := v.GetArray("promptTokensDetails"), v.GetArray("candidatesTokensDetails")
	update(&usage.PromptAudioTokens, ofModality(read, "AUDIO"))
	update(&usage.PromptImageTokens, ofModality(read, "IMAGE"))
	update(&usage.CompletionAudioTokens, ofModality(written, "AUDIO"))
	update(&usage.CompletionImageTokens, ofModality(written, "IMAGE"))
	if tier := tier(v); tier != "" {
		usage.Tier = tier
	}
	usage.TotalTokens = usage.PromptTokens + usage.CompletionTokens
	upstream.KeepWithin(usage)
}

// update sets a count to its new value.
func update(count *int64, n int64) {
	if n > 0 {
		*count = n
	}
}

// ofModality returns the tokens of a kind: TEXT, IMAGE, VIDEO, AUDIO or DOCUMENT.
func ofModality(details []*fastjson.Value, kind string) (tokens int64) {
	for _, d := range details {
		if string(d.GetStringBytes("modality")) == kind {
			tokens += upstream.Tokens(d.Get("tokenCount"))
		}
	}
	return tokens
}

// tier returns the class of service: Vertex AI names it as ON_DEMAND_PRIORITY and
// ON_DEMAND_FLEX, Google AI as priority and flex.
func tier(v *fastjson.Value) string {
	word := v.GetStringBytes("serviceTier")
	if word == nil {
		word = bytes.TrimPrefix(v.GetStringBytes("trafficType"), []byte("ON_DEMAND_"))
	}
	return upstream.Tier(bytes.ToLower(word))
}
