package main

func init() {
	add("providers/openai",
		mutant{
			ID: "own-key-costs-nothing", In: "cost",
			What: "what OpenRouter's provider bills to the account's own key is left out",
			Old:  `v.GetBool("is_byok")`, New: "false",
			Run: "Usage",
		},
		mutant{
			ID: "ticks-are-dollars", In: "cost",
			What: "xAI's ticks count as dollars",
			Old:  "dollars / ticks", New: "dollars",
			Run: "Usage",
		},
		mutant{
			ID: "free-is-unknown", In: "cost",
			What: "the cost of a free model counts as unknown",
			Old:  "return dollars, true", New: "return dollars, dollars > 0",
			Run: "Usage",
		},
		mutant{
			ID: "tier-of-another-chunk", In: "readPiece",
			What: "an answer of another class of service costs the usual price",
			Old:  `v.GetStringBytes("service_tier")`, New: "nil",
			Run: "Usage",
		},
	)
	add("providers/anthropic",
		mutant{
			ID: "hour-counts-twice", In: "usage.result",
			What: "tokens that are cached for an hour count as cached for minutes, too",
			Old:  "u.written - hour", New: "u.written",
			Run: "Usage",
		},
		mutant{
			ID: "totals-add-up", In: "update",
			What: "the running totals of a stream are added up",
			Old:  "*count = n", New: "*count += n",
			Run: "Usage",
		},
	)
	add("providers/bedrock",
		mutant{
			ID: "hours-above-the-whole", In: "readUsage",
			What: "more tokens are cached for an hour than were written",
			Old:  "min(hour+upstream.Tokens(kept.Get(\"inputTokens\")), written)", New: "hour + upstream.Tokens(kept.Get(\"inputTokens\"))",
			Run: "Usage",
		},
	)
	add("providers/gemini",
		mutant{
			ID: "searches-are-free", In: "readChunk",
			What: "the searches of an answer are left out",
			Old:  "result.Usage.WebSearches = int64(n)", New: "_ = n",
			Run: "Usage",
		},
	)
	add("providers/upstream",
		mutant{
			ID: "parts-above-the-whole", In: "KeepWithin",
			What: "more tokens are written to a cache than the prompt has",
			Old:  "min(u.CacheWriteTokens, u.PromptTokens-u.CachedTokens)", New: "u.CacheWriteTokens",
			Run: "Usage", Tests: []string{"providers/openai"},
		},
	)
	add("internal/dialect/messages",
		mutant{
			ID: "written-input-twice", In: "appendUsage",
			What: "input that went into the provider's cache counts twice",
			Old:  "u.CachedTokens-written", New: "u.CachedTokens",
			Run: "Usage",
		},
	)
}
