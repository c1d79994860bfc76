package main

// What a proof must not overlook, and a revision must not lose.
func init() {
	add("rules",
		mutant{
			ID: "hashes-match-nothing", In: "Replay.anyValue",
			What: "a value that is not known meets no condition",
			Old:  "return maybe\n\t}\n\tkept", New: "return no\n\t}\n\tkept",
			Run: "TestReplayAgainstAllContexts",
		},
		mutant{
			ID: "none-is-missing", In: "Replay.inputs",
			What: "a field with trace: none counts as missing",
			Old:  "r.known[slot] = isNone", New: "_ = isNone",
			Run: "TestReplayAgainstAllContexts",
		},
		mutant{
			ID: "bucket-beside-its-unit", In: "Replay.split",
			What: "a bucket that is not the unit's is no problem",
			Old:  "hasBucket && bucket != recorded", New: "false",
			Run: "TestReplayRefuses",
		},
		mutant{
			ID: "passed-on-by-half", In: "Replay.split",
			What: "a unit that is not known always gets a part",
			Old:  "covered < Buckets ||", New: "false &&",
			Run: "TestReplayAgainstAllContexts|TestReplayOfDoubt",
		},
	)
	add("internal/inspect",
		mutant{
			ID: "shares-unproved", In: "prover.checkSplits",
			What: "the share of a split is not compared",
			Old:  "|| c.Share != want.Part()", New: "",
			Tests: []string{"internal/gateway"}, Run: "TestMustHoldProofOfChangedRecords",
		},
		mutant{
			ID: "splits-taken-out", In: "prover.checkConsulted",
			What: "a split may be taken out of a record",
			Old:  "!recorded[row] && len(p.t.Splits) < rules.MaxSplits", New: "false",
			Tests: []string{"internal/gateway"}, Run: "TestMustHoldProofOfChangedRecords",
		},
		mutant{
			ID: "version-unproved", In: "prover.find",
			What: "the version of a definition is not compared",
			Old:  "d.Version != t.Version", New: "false",
			Tests: []string{"internal/gateway"}, Run: "TestMustHoldProofOfChangedRecords",
		},
	)
	add("internal/definition",
		mutant{
			ID: "past-unchecked", In: "Past.Load",
			What: "a trace may be proved by another revision than its own",
			Old:  "s.Revision != p.Revision", New: "false",
			Run: "TestPastComesBack",
		},
	)
}
