package main

// What the tests killed when the list was made.
func init() {
	add("internal/invoke",
		mutant{
			ID: "budget", In: "attempt.begin",
			What: "attempts are not counted",
			Old:  "	a.left--\n", New: "",
			Run: "Again",
		},
		mutant{
			ID: "retry-after-cap", In: "attempt.mayRepeat",
			What: "a provider can make a call wait for an hour",
			Old:  " || hint > MaxWait", New: "",
			Run: "Again",
		},
		mutant{
			ID: "jitter", In: "retryWait",
			What: "all clients come back at once",
			Old:  "hint+time.Duration(rand.Int64N(int64(hint)/10+1))", New: "hint",
			Run: "WaitIsJitteredAndBounded",
		},
		mutant{
			ID: "wait-beyond-the-deadline", In: "call.fits",
			What: "a call waits for an attempt that it has no time for",
			Old:  "wait <= max(left-time.Second, left/2)", New: "wait <= max(left-time.Second, left/2) || true",
			Run: "Again",
		},
	)
}
