package main

func init() {
	add("providers/openai",
		mutant{
			ID: "prepared-by-another", In: "Client.formOf",
			What: "a request is written as another configuration has prepared it",
			Old:  " || p.client != c", New: "",
			Run: "AnotherClientPrepared",
		},
		mutant{
			ID: "two-lists-of-messages", In: "Client.form",
			What: "a request has the definition's messages beside those of its extra",
			Old:  "if !fixed {", New: "if true {",
			Run: "ExtraMayHoldTheMessages",
		},
	)
	add("providers/upstream",
		mutant{
			ID: "path-without-a-slash", In: "Service.Request",
			What: "a service at a host without a path can't be called",
			Old:  "to.Path[0] != '/'", New: "false",
			Run: "WhereARequestGoes",
		},
		mutant{
			ID: "failed-twice", In: "failedOnce.RoundTrip",
			What: "a request that has failed is not sent again",
			Old:  "f.failure = nil", New: "",
			Run: "RepeatsWhatGotNoAnswer",
		},
	)
	add("internal/gateway",
		mutant{
			ID: "targets-of-the-last-definitions", In: "Workspace.targets",
			What: "calls have the targets of definitions that are no longer served",
			Old:  " || known.snapshot != snapshot", New: "",
			Run: "RequestsArePrepared",
		},
		mutant{
			ID: "lack-again", In: "Workspace.checkParameters",
			What: "each edit repeats the warning of what a target lacks",
			Old:  "!slices.Equal(w.lacks[l], endpoints)", New: "true",
			Run: "LackAParameter",
		},
	)
	add("internal/invoke",
		mutant{
			ID: "not-prepared", In: "lane.target",
			What: "each request is written again",
			Old:  " Prepared: t.Prepared,", New: "",
			Tests: []string{"internal/gateway"}, Run: "RequestsArePrepared",
		},
	)
}
