package main

// Reports on decisions, statistics by arm, version and name, and the conversations
// that requests name.
func init() {
	const statsAgree, once, byConversation = "StatsAgreeWithTheirMeaning", "ReportsCountOnce", "TracesByConversation"
	add("internal/store/sqlite",
		mutant{
			ID: "report-counted-before-and-after", In: "tallies.countOnDecision",
			What: "a report on a decision counts twice under traces of the same step",
			Old:  "append(rangesOf(decision), traces)", New: "append(rangesOf(decision), traces+1<<40)",
			Run: once,
		},
		mutant{
			ID: "report-forgets-later-traces", In: "statsKeeper.count",
			What: "a report on a decision does not count under traces that are stored later",
			Old:  "counted.countLate(ctx, tx, before.traces, after.traces, before.metrics,", New: "counted.countLate(ctx, tx, before.traces, before.traces, before.metrics,",
			Run: once,
		},
		mutant{
			ID: "late-reports-of-the-step", In: "StatsQuery.readTail",
			What: "reports that were not counted count as counted",
			Old:  "to.traces, from.metrics, ofTraces)", New: "to.traces, to.metrics, ofTraces)",
			Run: once,
		},
		mutant{
			ID: "starts-in-pairs", In: "decidedTraces",
			What: "a report counts under the start of a call, and again under its end",
			Old:  " AND t.state = 'ended'", New: "",
			Run: once,
		},
		mutant{
			ID: "kinds-take-all", In: "tallies.pair",
			What: "a score counts under a configuration",
			Old:  "reduced(*m, kind)", New: "reduced(*m, kind-kind)",
			Run: once,
		},
		mutant{
			ID: "empty-reports-shown", In: "Reader.metricsOf",
			What: "an export has reports of which the trace shows nothing",
			Old:  "record.Kind); some {", New: "record.Kind); some || !some {",
			Run: "ReportsOnADecision",
		},
		mutant{
			ID: "reports-of-the-first-decision", In: "Reader.metricsOf",
			What: "an export leaves out reports on decisions for which there was no room",
			Old:  "compareIDs(record.ID, unread) >= 0 || compareIDs(record.Decision, undecided) >= 0", New: "compareIDs(record.ID, unread) >= 0 || compareIDs(record.Decision, undecided) > 1",
			Run: "ExportsOfLargeDecisions",
		},
		mutant{
			ID: "decision-by-its-neighbours", In: "tracesOfDecision",
			What: "a decision has the traces of others of its millisecond",
			Old:  "AND ?%d AND decision_id = ?1 UNION", New: "AND ?%d UNION",
			Run: once,
		},
		mutant{
			ID: "decisions-of-before", In: "tracesOfDecision",
			What: "the traces of a decision that an earlier version recorded are not found",
			Old:  "WHERE decision_id = ?1 AND shared IS NOT NULL", New: "WHERE decision_id = ?1 AND shared IS NULL AND shared IS NOT NULL",
			Run: "MigrationToDecisions",
		},
		mutant{
			ID: "conversation-of-a-decision", In: "postingSource.reportedWindow",
			What: "a page that ends within a request loses the rest of the request's traces",
			Old:  "to = trace.FirstID(from.Time().Add(time.Millisecond))", New: "to = from",
			Run: byConversation,
		},
		mutant{
			ID: "conversation-unposted", In: "posting.add",
			What: "traces are not found by the conversation that their metadata names",
			Old:  "t.rest()*blockRows+uint32(row)", New: "t.rest()*blockRows",
			Run: byConversation,
		},
		mutant{
			ID: "odd-metadata-unposted", In: "wanted.candidates",
			What: "traces are not found whose metadata is read in a way of SQLite's own",
			Old:  "b.odd {", New: "false {",
			Run: "ErasedPostings",
		},
		mutant{
			ID: "torn-names-unposted", In: "wanted.candidates",
			What: "traces are not found whose names can't be told apart",
			Old:  "case b.torn:", New: "case false:",
			Run: "TornNames",
		},
		mutant{
			ID: "posted-after-an-erasure", In: "erasure.deleteRows",
			What: "a block that was being made has what an erasure deleted",
			Old:  "SET erasures = erasures + 1", New: "SET erasures = erasures",
			Run: "ErasedPostings",
		},
		mutant{
			ID: "decision-chosen-alone", In: "erasure.findByDecision",
			What: "an erasure leaves the traces of a decision on which it erases a report",
			Old:  "range decisions {", New: "range decisions[:0] {",
			Run: "ErasingDecisions",
		},
		mutant{
			ID: "decision-of-an-erased-trace", In: "erasure.findByDecision",
			What: "an erasure leaves the reports on the decision of a trace",
			Old:  "WHERE t.decision_id IS NOT NULL", New: "WHERE t.decision_id IS NULL",
			Run: "ErasingDecisions",
		},
		mutant{
			ID: "series-of-another", In: "statsKeeper.count",
			What: "traces count under a series that took the place of one that was deleted",
			Old:  "clear(k.series)", New: "_ = k.series",
			Run: "SeriesWithoutStatisticsGo",
		},
		mutant{
			ID: "arms-in-one", In: "StatsQuery.slotOf",
			What: "statistics by arm are of all arms",
			Old:  "if by&ByArm == 0 {", New: "if by&ByArm != 0 {",
			Run: statsAgree,
		},
	)
	add("internal/store/histogram",
		mutant{
			ID: "deviation-of-the-parts", In: "Numbers.Merge",
			What: "the deviation leaves out how far apart two parts are",
			Old:  "+ apart*apart*float64(n.Count)*part", New: "",
		},
		mutant{
			ID: "hundred-in-its-own-decade", In: "numberBucket",
			What: "a number that rounds up to the next power of ten is counted ten times too large or small",
			Old:  "exponent, digits = exponent+1, 10", New: "digits = 99",
		},
		mutant{
			ID: "negative-as-positive", In: "numberBucket",
			What: "negative numbers count as positive ones",
			Old:  "if x < 0 {", New: "if false {",
		},
		mutant{
			ID: "names-unbounded", In: "Named.at",
			What: "callers that report by ever new names fill the statistics",
			Old:  " || len(n.Names) >= MaxNames", New: "",
		},
		mutant{
			ID: "beyond-the-range", In: "Numbers.Quantile",
			What: "a quantile is beyond the greatest number that was reported",
			Old:  "min(max(numberOf(b.index), n.Min), n.Max)", New: "numberOf(b.index)",
		},
	)
}
