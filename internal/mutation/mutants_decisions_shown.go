package main

// How decisions are found, shown and erased.
func init() {
	add("internal/adminapi",
		mutant{
			ID: "decision-by-any-id", In: "Workspace.decision",
			What: "the id of a trace passes for that of a decision",
			Old:  "whole && id.Kind() != trace.KindDecision", New: "false",
			Run: "TestAdminDecision", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "first-of-several", In: "only",
			What: "the beginning of several ids shows the first",
			Old:  "len(found) == 1 && !more", New: "len(found) > 0",
			Run: "TestAdminDecision", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "statistics-of-other-arms", In: "serveStats",
			What: "statistics of one arm have the others",
			Old:  `cmp.Or(only["arm"], row.Arm) != row.Arm`, New: "false",
			Run: "TestAdminDecisionReports", Tests: []string{"caddymodule"},
		},
	)
	add("internal/command",
		mutant{
			ID: "passed-on-within-an-arm", In: "consulted.outcome",
			What: "a unit that was passed on seems to have an arm",
			Old:  `c.Arm == ""`, New: "false",
			Run: "TestGatewayCommandsGolden",
		},
		mutant{
			ID: "hash-as-a-value", In: "writeBasis",
			What: "a hashed input is not shown as such",
			Old:  `hashed.Hash != ""`, New: "false",
			Run: "TestGatewayCommandsGolden",
		},
	)
	add("internal/store/sqlite",
		mutant{
			ID: "repeated-report-has-two-ids", In: "requestID",
			What: "a report that is sent to two gateways is counted twice",
			Old:  "copy(id[:], sum[:])", New: "copy(id[:], sum[:0])\n	rand.Read(id[:])",
			Run: "TestRepeatedReportHasOneID",
		},
		mutant{
			ID: "erasure-forgets-what-reports-chose", In: "erasure.find",
			What: "a sink keeps a trace whose report it had yet to get when that was erased",
			Old:  "if err := e.tellReported(ctx); err != nil", New: "if err := ctx.Err(); err != nil",
			Run: "TestErasureOfWhatOnlyAReportNames",
		},
		mutant{
			ID: "erasure-forgets-its-decision", In: "gathering.nextErasure",
			What: "sinks are told to erase nothing of a decision",
			Old:  "copy(e.Decision[:], decision)", New: "_ = decision",
			Run: "TestSink/Erasures", Tests: []string{"sinks/postgres"},
		},
		mutant{
			ID: "decisions-without-end", In: "Reader.DecisionsBetween",
			What: "the one decision that was found passes for the only one",
			Old:  "near > maxDecisionsTraces || ", New: "near < 0 || ",
			Run: "TestDecisionsBetween",
		},
	)
}
