package main

// What the tests killed when the list was made.
func init() {
	add("internal/store/sqlite",
		mutant{
			ID: "not-durable", In: "Store.Commit",
			What: "acknowledged metrics are lost in a power cut",
			Old:  "batch.Durable()", New: "false",
			Run: "RepliesComeBackAsTheyWere|Durable",
		},
		mutant{
			ID: "no-rollback", In: "Store.transact",
			What: "a transaction that failed keeps the lock",
			Old:  "if !committed {", New: "if !committed && false {",
			Run: "FailedBatchLeavesNothing",
		},
		mutant{
			ID: "secure-delete", In: "writerDSN",
			What: "the file still has what was deleted",
			Old:  "		\"secure_delete(FAST)\",\n", New: "",
			Run: "ErasedContentIsGone",
		},
		mutant{
			ID: "erasure-without-clean", In: "erase",
			What: "an erasure leaves its content in the free pages and in the log",
			Old:  ", e.clean}", New: "}",
			Run: "ErasedContentIsGone",
		},
		mutant{
			ID: "erasure-without-secure-delete", In: "erase",
			What: "an erasure leaves its content in the pages of the tables",
			Old:  `"secure_delete(ON)"`, New: `"secure_delete(OFF)"`,
			Run: "ErasedContentIsGone",
		},
		mutant{
			ID: "repeated-metrics", In: "statements.allMetrics",
			What: "the metrics of a repeated request are stored twice",
			Old:  "if m.Reply.Earlier != nil {", New: "if false {",
			Run: "MetricsOfAKeyAreStoredOnce",
		},
		mutant{
			ID: "retention-before-sinks", In: "activeSink.awaits",
			What: "the retention deletes the last row that a sink awaits",
			Old:  "t.position(a.Position) < r.seq", New: "t.position(a.Position)+1 < r.seq",
			Run: "RetentionSparesWhatIsUndelivered",
		},
		mutant{
			ID: "erasures-forgotten", In: "forgetErasures",
			What: "an erasure is forgotten before a sink has it",
			Old:  "		told = min(told, sink.Erasures)\n", New: "		_ = sink\n",
			Run: "ErasuresAreForgotten",
		},
		mutant{
			ID: "jumped-clock", In: "clockGuard.trust",
			What: "a clock that jumped deletes everything",
			Old:  "case jump > suspiciousJump:", New: "case jump > suspiciousJump && false:",
			Run: "ClockGuard",
		},
		mutant{
			ID: "expired-replies-wait", In: "Store.deleteOld",
			What: "more than 500 expired replies wait a minute for each 500",
			Old:  "more = replies == deleteRows", New: "more = replies == deleteRows && false",
			Run: "ExpiredRepliesAreDeleted",
		},
		mutant{
			ID: "erasure-breaks-off", In: "erasure.delete",
			What: "an erasure that broke off does not find the rest",
			Old:  "allButNaming, e.marks.Metrics", New: "allButNaming[:0] + doomedReports, e.marks.Metrics",
			Run: "ErasureThatBreaksOffIsDoneAgain",
		},
	)
}
