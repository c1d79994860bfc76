package main

import "time"

// What a loading, and what it makes for each request, may take.
func init() {
	add("internal/regular",
		mutant{
			ID: "waits-for-a-writer", In: "open",
			What: "a FIFO that takes a file's place is opened for good",
			Old:  "syscall.O_NONBLOCK", New: "syscall.O_NONBLOCK*0",
			Run: "TakesTheFilesPlace",
		},
		mutant{
			ID: "looked-at-once", In: "open",
			What: "what takes a file's place is taken for it",
			Old:  "\t\terr = check(name, info)\n", New: "",
			Run: "TakesTheFilesPlace",
		},
	)
	add("internal/document",
		mutant{
			ID: "nodes", In: "builder.count",
			What: "a JSON file has values without end",
			Old:  "b.nodes > b.most", New: "false",
			Run: "CeilingOfNodes",
		},
		mutant{
			ID: "likely-nodes", In: "likelyNodes",
			What: "the values of a list are not thought likely",
			Old:  "\t\tcase ',':\n\t\t\tn++\n", New: "\t\tcase ',':\n",
			Run: "LikelyNodes",
		},
	)
	add("internal/definition",
		mutant{
			ID: "folder-that-waits", In: "folderName",
			What: "a FIFO in place of a folder is opened for good",
			Old:  `name + "/"`, New: "name",
			Run: "FIFOAsFolder",
		},
		mutant{
			ID: "load-timeout", In: "loader.stopped",
			What: "a loading has no end",
			Old:  "l.ctx.Err() != nil || ", New: "",
			Run: "LoadTimeout|EveryStep|CloseEnds",
		},
		mutant{
			ID: "tests-go-on", In: "testRun.run",
			What: "the tests of a definition go on after the loading was given up",
			Old:  "r.stopped()", New: "false",
			Run: "LoadTimeout",
		},
		mutant{
			ID: "workspace-nodes", In: "loader.grow",
			What: "many files have values without end",
			Old:  "n > MaxNodes", New: "n < 0",
			Run: "CeilingsOfWorkspace",
		},
		mutant{
			ID: "inherited-content", In: "decodeVariants",
			What: "variants inherit without end",
			Old:  "size += v.size(); size > MaxContent {\n\t\t\t\terrs", New: "false {\n\t\t\t\terrs",
			Run: "CeilingOfContent",
		},
		mutant{
			ID: "schema-steps", In: "valueSchema.check",
			What: "each value has all the steps there are",
			Old:  "s.meter.left = schemaSteps + schemaStepsForNode*nodes", New: "s.meter.left = 1 << 40; _ = nodes",
			Run: "SchemaSteps", Timeout: 40 * time.Second,
		},
		mutant{
			ID: "warnings-of-a-kind", In: "sortWarnings",
			What: "a hundred thousand files make as many lines of log",
			Old:  "case count[w.Kind] <= MaxWarnings:", New: "case true:",
			Run: "OfAKind",
		},
	)
	add("rules",
		mutant{
			ID: "cost-of-a-request", In: "Binding.evaluate",
			What: "a thousand computed fields have a thousand ceilings",
			Old:  "b.computed >= maxRequestCost", New: "false",
			Run: "ShareTheirWork",
		},
		mutant{
			ID: "cost-of-text", In: "Model.program",
			What: "only what one character makes of an expression is bounded",
			Old:  "f.cost == 0 {", New: "false {",
			Run: "CostOfTexts|ShareTheirWork",
		},
		mutant{
			ID: "cost-of-lists", In: "Binding.setResult",
			What: "lists that computed fields put together have no ceiling",
			Old:  "b.computed+uint64(size) > maxRequestCost", New: "false",
			Run: "CostOfTexts/lists",
		},
		mutant{
			ID: "pattern-size", In: "cellReader.pattern",
			What: "a few bytes of a pattern take megabytes, in each of many rows",
			Old:  "r.patterns > maxPatterns {", New: "false {",
			Run: "CeilingOfPatterns",
		},
	)
	add("internal/gateway",
		mutant{
			ID: "left", In: "call.decide",
			What: "tables are evaluated for callers that have left",
			Old:  "c.r.Context().Err() != nil", New: "false",
			Run: "WhoHasLeft",
		},
	)
}
