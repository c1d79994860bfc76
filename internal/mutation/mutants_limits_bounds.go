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
			Old:  "min(amount, invoke.MaxBound)", New: "amount",
			Run: "TestACostBeyondAllIsCounted",
		},
		mutant{
			ID: "extra-answers-longer", In: "mostAnswer",
			What: "less is set aside than an answer of extra's bound may have",
			Old:  "case b.Answer > 0:", New: "case false:",
			Run: "TestMostAnswer",
		},
		mutant{
			ID: "answers-at-once", In: "mostAnswer",
			What: "of several answers one is set aside",
			Old:  "b.Answers > 1", New: "false",
			Run: "TestMostAnswer",
		},
		mutant{
			ID: "dearer-class", In: "mostAt",
			What: "the usual price is set aside for a dearer class of service",
			Old:  "t.Bounds.Tier", New: `""`,
			Run: "TestMostOf",
		},
		mutant{
			ID: "beside-messages", In: "meter.measure",
			What: "what a target has beside messages is not set aside",
			Old:  "prompt+beside", New: "prompt",
			Run: "TestWhatAPromptIsMeasuredBy",
		},
		mutant{
			ID: "tight-bound", In: "meter.measure",
			What: "a loose bound refuses what fits",
			Old:  "tokens = invoke.TightTokens", New: "tokens = invoke.MostTokens",
			Run: "TestTheTightBound",
		},
		mutant{
			ID: "beside-of-the-caller", In: "merged",
			What: "what a caller brings beside messages is not set aside",
			Old:  "t.Bounds.Beside = 0", New: "_ = t",
			Run: "TestWhatACallerAddsIsMeasured",
		},
	)
}
