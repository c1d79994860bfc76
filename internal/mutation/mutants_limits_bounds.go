package main

func init() {
	add("internal/gateway",
		mutant{
			ID: "share-at-the-seam", In: "call.shareBefore",
			What: "a budget is full for a request that another window overtakes",
			Old:  "max(s.Reserved-1, 0)", New: "s.Reserved-1",
			Run: "TestAShareAtTheSeam",
		},
		mutant{
			ID: "absurd-costs-are-free", In: "nanodollars",
			What: "a cost beyond all numbers counts as nothing",
			Old:  "min(amount, mostCounted)", New: "amount",
			Run: "TestACostBeyondAllIsCounted",
		},
		mutant{
			ID: "extra-answers-longer", In: "mostAnswer",
			What: "less is set aside than an answer of extra's bound may have",
			Old:  "largest(t.Extra, answerBounds)", New: "0, false",
			Run: "TestMostAnswer",
		},
		mutant{
			ID: "answers-at-once", In: "mostAnswer",
			What: "of several answers one is set aside",
			Old:  "several && n > 1", New: "several && false",
			Run: "TestMostAnswer",
		},
		mutant{
			ID: "dearer-class", In: "Workspace.mostOf",
			What: "the usual price is set aside for a dearer class of service",
			Old:  "tierOf(t.Extra)", New: `""`,
			Run: "TestMostOf",
		},
		mutant{
			ID: "beside-messages", In: "meter.measure",
			What: "what a target has beside messages is not set aside",
			Old:  "tokens(nil, tools, beside...)", New: "tokens(nil, tools)",
			Run: "TestWhatAPromptIsMeasuredBy",
		},
		mutant{
			ID: "tight-bound", In: "call.afford",
			What: "a loose bound refuses what fits",
			Old:  "invoke.TightTokens", New: "invoke.MostTokens",
			Run: "TestTheTightBound",
		},
	)
}
