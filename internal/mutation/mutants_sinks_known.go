package main

// What the tests killed when the list was made.
func init() {
	add("sinks",
		mutant{
			ID: "ahead-of-the-store", In: "loop.resume",
			What: "a sink may move the store's position ahead",
			Old:  "from = from.Min(kept); from", New: "from",
			Run: "DrainGoesBack",
		},
		mutant{
			ID: "cancelled-advance", In: "loop.advance",
			What: "what a sink took while it was stopped comes again",
			Old:  "context.WithoutCancel(l.ctx)", New: "l.ctx",
			Run: "StopKeepsWhatWasDelivered",
		},
		mutant{
			ID: "same-time-to-prepare", In: "loop.resume",
			What: "a sink that needs long to change its tables never comes to an end",
			Old:  "l.resuming++", New: "_ = timeout",
			Run: "DrainWaitsLongerForASinkThatPrepares",
		},
		mutant{
			ID: "same-size-after-a-timeout", In: "loop.tookTooLong",
			What: "a delivery that takes too long is tried again as large as it was",
			Old:  "	l.limit = max(1, min(l.limit, d.Len())/2)\n", New: "",
			Run: "DrainHalvesWhatTakesTooLong",
		},
		mutant{
			ID: "no-turns", In: "Drain.takeTurn",
			What: "two drains of a sink run at once",
			Old:  "make(chan struct{}, 1)", New: "make(chan struct{}, 2)",
			Run: "DrainDeliversInOrderAndLooksAgain|Turn|Drain",
		},
	)
}
