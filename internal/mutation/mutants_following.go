package main

func init() {
	add("internal/adminapi",
		mutant{
			ID: "follow-outlives-its-configuration", In: "traceQuery.awaitCommit",
			What: "a request that follows holds up a reload",
			Old:  "case <-q.workspace.Stopping:", New: "case <-(chan struct{})(nil):",
			Tests: []string{"caddymodule"}, Run: "TestFollowWaits",
		},
		mutant{
			ID: "follow-goes-back", In: "traceQuery.follow",
			What: "a wait that found nothing is begun from the same place again",
			Old:  "if sent != next.seq {", New: "if false {",
			Tests: []string{"caddymodule"}, Run: "TestFollowEndsWithItsWait",
		},
		mutant{
			ID: "ambiguous-id", In: "only",
			What: "the beginning of several ids finds the first",
			Old:  "len(found) == 1 && !more", New: "len(found) >= 1",
			Tests: []string{"caddymodule"}, Run: "TestAdminTraceByPrefix",
		},
	)
	add("internal/store/sqlite",
		mutant{
			ID: "fallback-by-attempts-alone", In: "conditions",
			What: "a call whose first target was left out is no fallback",
			Old:  "c.add(fellBack)", New: `c.add("json_array_length(attempts) > 1")`,
			Run: "TestTracesByTheirAttempts",
		},
	)
	add("rules",
		mutant{
			ID: "segments-without-reasons", In: "Table.explainRow",
			What: "an explanation does not say why the context is not in a segment",
			Old:  "t.rowCells(row), b, true)", New: "t.rowCells(row), b, false)",
			Run: "TestExplain",
		},
	)
}
