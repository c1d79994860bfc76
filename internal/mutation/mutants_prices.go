package main

func init() {
	add("internal/price",
		mutant{
			ID: "cached-twice", In: "Price.Cost",
			What: "cached tokens are paid for as others of the prompt, too",
			Old:  "read := take(&rest, u.CachedTokens)", New: "read := u.CachedTokens",
		},
		mutant{
			ID: "thoughts-twice", In: "Price.Cost",
			What: "thoughts are paid for as others of the answer, too",
			Old:  "thought := take(&rest, u.ReasoningTokens)", New: "thought := u.ReasoningTokens",
		},
		mutant{
			ID: "media-beyond-prompt", In: "Price.Cost",
			What: "tokens of sounds are paid for again where they were cached",
			Old:  "audio := take(&rest, u.PromptAudioTokens)", New: "audio := u.PromptAudioTokens",
		},
		mutant{
			ID: "wrong-counts-pay-back", In: "take",
			What: "negative counts of tokens make an answer cheaper",
			Old:  "min(max(tokens, 0), *rest)", New: "min(tokens, *rest)",
		},
		mutant{
			ID: "tier-too-early", In: "applyTier",
			What: "a prompt of just the length of a tier has its prices",
			Old:  "tokens > above", New: "tokens >= above",
		},
		mutant{
			ID: "class-before-tier", In: "Price.rates",
			What: "a class of service has no prices of its own for long prompts",
			Old:  "applyTier(class.Above, tokens, &r)", New: "_ = class",
		},
		mutant{
			ID: "bound-of-whole-alone", In: "Price.mostOf",
			What: "a budget sets aside too little for writes to a cache",
			Old:  "r[cacheWriteHour], ", New: "",
		},
		mutant{
			ID: "bound-of-longest-alone", In: "Price.mostOf",
			What: "a budget sets aside too little where long prompts cost less",
			Old:  "for tokens := range p.Above {", New: "for tokens := range map[int64]Change(nil) {",
		},
		mutant{
			ID: "any-host-public", In: "matches",
			What: "a host whose name begins like a public one's has its prices",
			Old:  "return pattern == host", New: "return len(host) >= len(pattern) && host[:len(pattern)] == pattern",
		},
		mutant{
			ID: "shipped-before-given", In: "Table.Find",
			What: "the shipped price of a model counts before the given one",
			Old:  "if p.given != nil {", New: "if p.given != nil && p.shipped == nil {",
		},
		mutant{
			ID: "asked-before-served", In: "Table.FindServed",
			What: "the model asked for counts before the one that served",
			Old:  "s.given, m.given, s.shipped", New: "s.given, m.given, m.shipped",
		},
		mutant{
			ID: "view-remembered", In: "Table.find",
			What: "a table remembers names that are parts of a buffer",
			Old:  "strings.Clone(what.model)", New: "what.model",
		},
		mutant{
			ID: "search-unbounded", In: "Table.find",
			What: "a provider that names ever new models fills the memory",
			Old:  "len(*known) >= maxFound", New: "false",
		},
	)
}

func init() {
	add("internal/gateway",
		mutant{
			ID: "own-cost-unheard", In: "Workspace.cost",
			What: "the price counts before the cost that the provider names",
			Old:  "a.Usage.HasCost && ", New: "false && ", Run: "CostOfAnAttempt",
		},
		mutant{
			ID: "served-unpriced", In: "Workspace.cost",
			What: "the model that a provider says it used has no part in its cost",
			Old:  "served = result.Model", New: "_ = result", Run: "CostOfAnAttempt",
		},
		mutant{
			ID: "free-unknown", In: "Workspace.cost",
			What: "a known cost of nothing is not told apart from an unknown one",
			Old:  "a.Free = said == 0", New: "_ = said", Run: "CostOfAnAttempt",
		},
	)
}
