package main

// What the tests killed when the list was made.
func init() {
	add("sinks/postgres",
		mutant{
			ID: "moved-elsewhere", In: "Sink.store",
			What: "two gateways deliver the same rows",
			Old:  "tag.RowsAffected() != 1", New: "tag.RowsAffected() > 1",
			Run: "TestSink",
		},
		mutant{
			ID: "refusals-of-limits", In: "isRefusal",
			What: "a row beyond a limit holds up all that is behind it",
			Old:  `case "22", "23", "54":`, New: `case "22", "23":`,
			Run: "TestSink|Refus",
		},
		mutant{
			ID: "clock-allowance", In: "Sink.erase",
			What: "an erasure leaves what another gateway's clock dated ahead",
			Old:  "e.Time.Add(clockAllowance)", New: "e.Time",
			Run: "TestSink",
		},
	)
}
