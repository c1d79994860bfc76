package main

func init() {
	add("internal/store/sqlite",
		mutant{
			ID: "finish-reasons-not-summed", In: "tally.merge",
			What: "of finish reasons only the last slot counts",
			Old:  "t.finished[i] += n", New: "t.finished[i] = n",
			Run: "TestStatsAgree",
		},
		mutant{
			ID: "finish-reason-of-another", In: "tallies.countRows",
			What: "finish reasons are counted in each other's place",
			Old:  "c.finished[reason-1]++", New: "c.finished[reason%4]++",
			Run: "TestHowAnswersEndedIsKept|TestStatsAgree",
		},
	)
}
