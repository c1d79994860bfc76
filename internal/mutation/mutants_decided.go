package main

func init() {
	add("internal/gateway",
		mutant{
			ID: "instant-finer-than-the-trace", In: "call.bind",
			What: "tables see more of the instant than the trace has",
			Old:  "c.began.Truncate(time.Millisecond)", New: "c.began",
			Run: "TestInstantOfADecision",
		},
		mutant{
			ID: "evidence-of-the-key-before", In: "call.recordEvidence",
			What: "a trace has the evidence of the request's other keys",
			Old:  "	e.reset()\n", New: "",
			Run: "TestEvidenceOfEachKey",
		},
		mutant{
			ID: "evidence-without-the-endpoints-table", In: "call.addChoice",
			What: "the trace of a call lacks what the endpoint's own table consulted",
			Old:  "		c.addEvidence(table, chosen)\n", New: "",
			Run: "TestEvidenceOfDecisions",
		},
		mutant{
			ID: "evidence-without-the-variables", In: "call.noteVariables",
			What: "a trace lacks the configurations that variables were taken from",
			Old:  "c.evidence.trail.Ask(config.Table(), &c.binding)", New: "_ = config",
			Run: "TestEvidenceOfDecisions",
		},
		mutant{
			ID: "evidence-after-the-start", In: "call.newCallRecord",
			What: "a call that is under way lacks what it rests on",
			Old:  "	c.recordEvidence(record)\n", New: "",
			Run: "TestEvidenceOfCalls",
		},
		mutant{
			ID: "replay-without-its-decision", In: "call.replay",
			What: "an answer that is given again does not name its decision",
			Old:  "!kept.Decision.IsZero()", New: "false",
			Run: "TestAnswersNameTheirDecision",
		},
		mutant{
			ID: "former-key-of-decisions", In: "Workspace.verifyDecision",
			What: "decisions made before the key was configured are unknown",
			Old:  "ids.former != nil && ids.former.VerifyDecision(id)", New: "false",
			Run: "TestDecisionsAreVerified",
		},
		mutant{
			ID: "inputs-unredacted", In: "Workspace.redactRequest",
			What: "secrets in inputs are recorded",
			Old:  "	record.Inputs, _ = w.redactor.Inputs(record.Inputs)\n", New: "",
			Run: "TestRawValuesAreNotRecorded",
		},
	)
	add("internal/store/sqlite",
		mutant{
			ID: "split-without-its-experiment", In: "scanRecord",
			What: "the split of the row that decided is shown without experiment and arm",
			Old:  "	completeSplits(&rec)\n", New: "",
			Run: "TestSplitsComeBackAsTheyWere",
		},
		mutant{
			ID: "split-of-another-arm", In: "storedSplits.text",
			What: "a split is stored without its arm where the trace has another",
			Old:  "	if !found {\n		return splits\n	}\n	return slices", New: "	if !found {\n		rest = after[bucket:]\n	}\n	return slices",
			Run: "TestSplitsComeBackAsTheyWere",
		},
	)
}
