package main

func init() {
	add("internal/invoke",
		mutant{
			ID: "purse-of-repeats", In: "attempt.mayRepeat",
			What: "another try at a target is not paid for",
			Old:  " && (a.Purse == nil || a.Purse.Take(a.index))", New: "",
			Run: "Purse",
		},
		mutant{
			ID: "purse-of-hedges", In: "call.hedgeTarget",
			What: "a hedge is not paid for",
			Old:  "!k.pay(u)", New: "false",
			Run: "Purse",
		},
		mutant{
			ID: "purse-leaks", In: "Engine.Invoke",
			What: "what was taken for a hedge that never began is not given back",
			Old:  "	defer k.refund()\n", New: "",
			Run: "Purse|NeverMixed",
		},
		mutant{
			ID: "purse-leaks-in-waits", In: "lane.closeRecord",
			What: "what was taken for a retry whose wait was cut short is not given back",
			Old:  "l.Purse.Return(l.records[last].Target)", New: "",
			Run: "Purse",
		},
		mutant{
			ID: "purse-paid-twice", In: "call.pay",
			What: "a target that a hedge had paid for is paid for again",
			Old:  "u.paid || ", New: "",
			Run: "Purse",
		},
		mutant{
			ID: "purse-keeps-the-probe", In: "call.next",
			What: "a target that no budget has room for stays away, as its probe never ends",
			Old:  "		u.health.release()\n", New: "",
			Run: "Refused",
		},
		mutant{
			ID: "parts-of-an-attempt", In: "lane.closeRecord",
			What: "the trace of an attempt lacks the tokens that have prices of their own",
			Old:  "	r.UsageDetails = details(&u.usage)\n", New: "",
			Run: "Usage",
		},
	)
}

func init() {
	add("internal/invoke",
		mutant{
			ID: "samples-are-all", In: "counter.scaled",
			What: "a long prompt costs what its samples do",
			Old:  "c.counted*int64(size)", New: "c.counted*int64(c.bytes)",
			Run: "CountTokens|LongPrompts",
		},
		mutant{
			ID: "words-at-any-space", In: "wordBegins",
			What: "white space is counted in pieces",
			Old:  "return !unicode.IsSpace(r)", New: "return unicode.IsSpace(r) || r != 0",
			Run: "WordsAreCounted",
		},
		mutant{
			ID: "words-of-a-place", In: "countWord",
			What: "a word has the tokens of the one before it in its place",
			Old:  "was&^0xff == hash&^0xff && was&0xff != 0", New: "was&0xff != 0",
			Run: "WordsAreCounted",
		},
		mutant{
			ID: "parts-of-answers-cost-nothing", In: "attempt.used",
			What: "an answer that breaks off after the provider counted its prompt costs nothing",
			Old:  "counted.CompletionTokens = said", New: "_ = said",
			Run: "PartlyCounted",
		},
		mutant{
			ID: "count-without-margin", In: "TightTokens",
			What: "the tight bound of a prompt's tokens is too small for Claude",
			Old:  "texts*(100+marginOfCount)/100", New: "texts*5/4",
			Run: "TightTokens",
		},
		mutant{
			ID: "schemas-free", In: "MostTokens",
			What: "the schema of an answer is not set aside",
			Old:  "all += sharesOf(text)", New: "_ = text",
			Run: "SchemasCount",
		},
		mutant{
			ID: "schemas-unestimated", In: "attempt.used",
			What: "an estimated usage has no schema",
			Old:  ", a.target.Parameters.Beside(), maxEstimated)", New: ", nil, maxEstimated)",
			Run: "SchemasCount",
		},
		mutant{
			ID: "digits-share-tokens", In: "shares",
			What: "the bound of a prompt's tokens is too small for numbers with spaces",
			Old:  "of[i] = 28", New: "_ = i",
			Run: "MostTokens",
		},
	)
}
