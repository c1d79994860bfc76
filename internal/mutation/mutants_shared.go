package main

func init() {
	add("internal/recorder",
		mutant{
			ID: "shared-counts-nothing", In: "Recorder.Evaluations",
			What: "what records share takes no room in the queue",
			Old:  "shared != nil && !counted", New: "false",
			Run: "TestSharedMembersAreCountedOnce",
		},
		mutant{
			ID: "shared-counts-with-the-first", In: "Recorder.Evaluations",
			What: "where the first record is dropped, what it shares takes no room",
			Old:  "counted = counted || counts\n		}", New: "}\n		counted = counted || counts",
			Run: "TestSharedMembersAreCountedWithoutTheFirst",
		},
	)
	add("trace",
		mutant{
			ID: "shared-content-unbounded", In: "Record.DropContent",
			What: "what a request shares is recorded however large it is",
			Old:  "		r.SharesContent = false\n", New: "",
			Run: "TestSharedContentIsBounded", Tests: []string{"internal/recorder"},
		},
	)
	add("internal/store/sqlite",
		mutant{
			ID: "content-that-no-trace-shows", In: "statements.keepDecision",
			What: "context is stored although no definition logs it",
			Old:  "if shows == showsContent {", New: "if shows >= showsMetadata {",
			Run: "TestDecisionsGoWithTheLastOfTheirTraces",
		},
		mutant{
			ID: "decision-of-an-earlier-batch", In: "statements.batch",
			What: "what was stored once is taken to be there for good",
			Old:  "		clear(s.decided)\n", New: "",
			Run: "TestDecisionsGoWithTheLastOfTheirTraces",
		},
		mutant{
			ID: "shared-metadata-not-erased", In: "erasure.findByMetadata",
			What: "an erasure does not find traces by what they share",
			Old:  "where.metadata(t.metadata,", New: `where.metadata("metadata",`,
			Run: "TestErasureOfSharedMembers",
		},
		mutant{
			ID: "decision-of-no-content", In: "shownBy",
			What: "a trace shows the context that its definition does not log",
			Old:  "if r.SharesContent {", New: "if true {",
			Run: "TestSharedMembersAreShownOnEveryTrace",
		},
	)
	add("internal/gateway",
		mutant{
			ID: "shared-unredacted", In: "call.addRequestToAll",
			What: "secrets that the answers of a request share are stored",
			Old:  "	c.workspace.redactRequest(common)\n", New: "",
			Run: "TestARequestIsStoredOnce", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "variables-of-configurations", In: "call.addRequest",
			What: "variables of prompts are recorded because a configuration logs its content",
			Old:  " && record.Kind != trace.KindRemoteConfig", New: "",
			Run: "TestVariablesOfDecisions",
		},
		mutant{
			ID: "beside-unrecorded", In: "invocation.give",
			What: "the traces of values beside an endpoint's answer are dropped",
			Old:  "	i.giveRecords()\n", New: "",
			Run: "TestConfigurationsBesideAnswers",
		},
		mutant{
			ID: "beside-early", In: "call.buildBeside",
			What: "values that no caller got are recorded, of calls that fail",
			Old:  "	c.completeRecords()\n", New: "	c.completeRecords()\n	c.giveRecords()\n",
			Run: "TestConfigurationsOfFailedCalls",
		},
		mutant{
			ID: "beside-records-held", In: "call.holdCall",
			What: "the records of values beside answers take memory without bound while models answer",
			Old:  "		size += other.Size()\n", New: "		_ = other\n",
			Run: "TestRoomOfConfigurationsBesideAnswers",
		},
		mutant{
			ID: "evaluation-unredacted", In: "call.addRequestToAll",
			What: "secrets in a request with one key are stored",
			Old:  "		c.workspace.redactRequest(c.records[0])\n", New: "",
			Run: "TestWhatIsSmallIsStoredWithEachTrace",
		},
		mutant{
			ID: "shared-content-of-all", In: "call.keep",
			What: "one definition that logs content has the others do so",
			Old:  "record.SharesContent = policy == definition.LogContent", New: "record.SharesContent = true",
			Run: "TestARequestIsStoredOnce", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "copied-content-of-all", In: "copyRequest",
			What: "one definition that logs content has the others do so",
			Old:  "if record.SharesContent {", New: "if true {",
			Run: "TestWhatIsSmallIsStoredWithEachTrace",
		},
	)
}
