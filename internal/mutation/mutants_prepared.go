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
	add("providers/upstream",
		mutant{
			ID: "parser-while-waiting", In: "EventAnswer.Event",
			What: "each stream that waits holds a parser",
			Old:  "a.events.start == a.events.end", New: "false",
			Run: "HoldsWhileItWaits",
		},
		mutant{
			ID: "buffer-of-a-closed-answer", In: "EventAnswer.Close",
			What: "each answer has a buffer of its own",
			Old:  "a.events.release()", New: "",
			Run: "HoldsWhileItWaits",
		},
	)
	add("providers/openai",
		mutant{
			ID: "no-linger", In: "stream.Step",
			What: "an answer that is all there waits for what never comes",
			Old:  "s.Linger(s.linger)", New: "",
			Run: "AConnectionThatStaysOpen",
		},
		mutant{
			ID: "last-of-two-members", In: "members",
			What: "the last of two members of the same name is read",
			Old:  "found[i] == nil && ", New: "",
			Run: "FirstOfTwo",
		},
	)
	add("internal/gateway",
		mutant{
			ID: "targets-of-the-last-definitions", In: "Workspace.callTargets",
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
			Old:  "req.Prepared, req.Stream = t.Prepared, l.Stream", New: "req.Stream = l.Stream",
			Tests: []string{"internal/gateway"}, Run: "RequestsArePrepared",
		},
	)
}
