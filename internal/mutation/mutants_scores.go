package main

func init() {
	add("internal/store/sqlite",
		mutant{
			ID: "first-score", In: "lastReport",
			What: "the score that was reported first counts",
			Old:  "ORDER BY metrics.seq DESC LIMIT 1", New: "ORDER BY metrics.seq LIMIT 1",
			Run: "TestTheLastScoreCounts",
		},
		mutant{
			ID: "score-said-again", In: "scoresFrom",
			What: "a trace whose last score was reported before is not among the worst",
			Old:  "max(seq) FROM", New: "min(seq) FROM",
			Run: "TestTheLastScoreCounts",
		},
		mutant{
			ID: "worst-again", In: "Reader.Worst",
			What: "a page of the worst begins with the last of the page before",
			Old:  "compareIDs(id, at.ID) >= 0", New: "compareIDs(id, at.ID) > 0",
			Run: "TestQueriesAgree",
		},
		mutant{
			ID: "first-score-of-a-call", In: "Reader.Selects",
			What: "of a call that is under way the score that was reported first counts",
			Old:  "cmp.Or(m.Score, last)", New: "cmp.Or(last, m.Score)",
			Run: "TestTheLastScoreCounts",
		},
	)
}
