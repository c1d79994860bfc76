package main

// The members of a trace, as each walk over their table has them.
func init() {
	add("trace",
		mutant{
			ID: "unknown-tokens-read-as-none", In: "readFields",
			What: "tokens that were read are not known",
			Old:  "*f.Known(into) = true", New: "_ = f.Known(into)",
			Run: "TestRecordIsReadWhole",
		},
		mutant{
			ID: "copy-in-the-same-buffers", In: "Record.CopyFrom",
			What: "a copy of a record shares its buffers",
			Old:  "append(own[i][:0], *buffer...)", New: "*buffer",
			Run: "TestBuffersAreTheRecorders", Tests: []string{"internal/recorder"},
		},
	)
	add("internal/store/sqlite",
		mutant{
			ID: "value-of-the-row-before", In: "statement.bind",
			What: "a row has values of the row that the statement inserted before",
			Old:  "if v.of == isNull && !s.some[parameter] {", New: "if v.of == isNull {",
			Run: "TestStatementsForgetTheRowBefore",
		},
		mutant{
			ID: "run-that-another-counted", In: "feed.next",
			What: "what another process has counted counts again",
			Old:  "if r.from == cursor {", New: "if r.from <= cursor {",
			Run: "TestRunsGoOnFromTheCursor",
		},
		mutant{
			ID: "columns-that-no-list-has", In: "recordInserter.listOf",
			What: "what only an upstream call has is not stored",
			Old:  "case f >= len(evaluationFields):", New: "case false:",
			Run: "TestRecordsComeBackAsTheyWere",
		},
	)
	add("sinks/postgres",
		mutant{
			ID: "value-of-the-row-before", In: "fillRow",
			What: "a row has values of the row before it",
			Old:  "			values[i] = nil\n", New: "",
			Run: "TestEveryFieldHasAValue",
		},
	)
}
