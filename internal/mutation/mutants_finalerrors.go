package main

func init() {
	add("internal/invoke",
		mutant{
			ID: "final-after-a-hiccup", In: "call.final",
			What: "a caller gives up although the second target only had a hiccup",
			Old:  "!slices.ContainsFunc(k.failures, passes) && ", New: "",
			Run: "TestFinalFailures",
		},
		mutant{
			ID: "final-with-a-target-left", In: "call.final",
			What: "a caller gives up although a target was skipped that may answer soon",
			Old:  "return s.passes()", New: "return false",
			Run: "TestFinalFailures",
		},
		mutant{
			ID: "final-refusals-repeated", In: "call.failure",
			What: "a caller pays again for an answer that a policy refuses",
			Old:  "		e.Final = true // whatever the other targets are good for, they aren't asked\n", New: "",
			Run: "TestFinalFailures",
		},
		mutant{
			ID: "final-bad-key-comes-back", In: "Skip.passes",
			What: "a target with a bad key is thought to answer soon",
			Old:  `!is || left.Why.Class == "" || !left.Why.Class.row().Final`, New: "true || is || left == nil",
			Run: "TestFinalFailures",
		},
	)
	add("internal/gateway",
		mutant{
			ID: "final-untold", In: "invocation.failed",
			What: "libraries repeat what no repetition mends, and the caller pays three times",
			Old:  "failure.Final || ", New: "",
			Run: "TestErrorsThatNoRepetitionMends",
		},
		mutant{
			ID: "final-limited-rate", In: "invocation.failed",
			What: "libraries repeat a request at once that a provider has told to wait for minutes",
			Old:  " || code == wire.UpstreamRateLimited && failure.RetryAfter > longestWait", New: "",
			Run: "TestErrorsThatNoRepetitionMends",
		},
		mutant{
			ID: "final-replays-repeated", In: "call.replay",
			What: "libraries repeat a request whose key has a failure",
			Old:  "kept.Status >= http.StatusInternalServerError", New: "false",
			Run: "TestEndpointIsAskedOnceForAKey",
		},
	)
}
