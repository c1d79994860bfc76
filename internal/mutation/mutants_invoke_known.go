package main

// What the tests killed when the list was made.
func init() {
	add("internal/invoke",
		mutant{
			ID: "breaker-of-21", In: "health.count",
			What: "a breaker needs more answers than it says",
			Old:  "answers >= minAnswers", New: "answers > minAnswers",
			Run: "BreakerOpensAtHalfOfTwenty",
		},
		mutant{
			ID: "retry-after-zero", In: "call.retryAfter",
			What: "a caller that is sent away for a while may come back at once",
			Old:  "max(soonest, minRetryAfter)", New: "soonest",
			Run: "EverythingDown",
		},
		mutant{
			ID: "slow-caller", In: "call.pass",
			What: "a caller that reads slowly counts as a provider that stalls",
			Old:  "		a.clock.pause()\n", New: "",
			Run: "ASlowCallerIsNotAStalledStream",
		},
	)
}
