package upstream

import "github.com/cadenza-gateway/cadenza/providers"

// KeepWithin cuts the parts of a usage where they exceed the whole, as a service that
// errs may have them.
func KeepWithin(u *providers.Usage) {
	u.CachedTokens = min(u.CachedTokens, u.PromptTokens)
	u.CacheWriteTokens = min(u.CacheWriteTokens, u.PromptTokens-u.CachedTokens)
	u.CacheWriteHourTokens = min(u.CacheWriteHourTokens, u.PromptTokens-u.CachedTokens-u.CacheWriteTokens)
	u.PromptAudioTokens = min(u.PromptAudioTokens, u.PromptTokens)
	u.PromptImageTokens = min(u.PromptImageTokens, u.PromptTokens-u.PromptAudioTokens)
	u.ReasoningTokens = min(u.ReasoningTokens, u.CompletionTokens)
	u.CompletionAudioTokens = min(u.CompletionAudioTokens, u.CompletionTokens)
	u.CompletionImageTokens = min(u.CompletionImageTokens, u.CompletionTokens-u.CompletionAudioTokens)
}

// Tier returns the class of service that a service names, where its price is another
// one than the usual.
func Tier(word []byte) string {
	for _, tier := range [...]string{"batch", "flex", "priority"} {
		if string(word) == tier {
			return tier
		}
	}
	return ""
}
