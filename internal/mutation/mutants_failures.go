package main

// What is kept of failures, and logged and shown of targets.
func init() {
	add("internal/gateway",
		mutant{
			ID: "attempt-in-full", In: "invocation.errorOf",
			What: "a trace has a provider's words with log metadata",
			Old:  "i.policy == definition.LogContent", New: "i.policy >= definition.LogMetadata",
			Run: "FailuresBehind",
		},
		mutant{
			ID: "attempt-unredacted", In: "Workspace.failureText",
			What: "what a provider quotes is stored with its secrets",
			Old:  "w.redactor.String(text)", New: "text",
			Run: "FailuresBehind",
		},
		mutant{
			ID: "attempt-cut-in-a-rune", In: "Workspace.failureText",
			What: "a text is cut within a character",
			Old:  "!utf8.RuneStart(text[end])", New: "!utf8.RuneStart(text[end]) && false",
			Run: "FailuresBehind",
		},
		mutant{
			ID: "targets-of-others", In: "Workspace.Targets",
			What: "a target without its provider looks as if it were called",
			Old:  `problem != ""`, New: "false",
			Run: "Targets",
		},
		mutant{
			ID: "fallbacks-uncounted", In: "invocation.countTargets",
			What: "an answer in place of a target that is left alone is no fallback",
			Old:  "skipped.Target < result.Served", New: "false",
			Run: "Targets",
		},
	)
	add("internal/invoke",
		mutant{
			ID: "quotation", In: "call.explain",
			What: "words that quote a prompt are kept",
			Old:  " && !k.quoted(e.Message)", New: "",
			Run: "Words",
		},
		mutant{
			ID: "words-of-a-rejection", In: "call.explain",
			What: "words about the request are kept",
			Old:  "case Credential,", New: "case Rejected, Credential,",
			Run: "Words",
		},
		mutant{
			ID: "repeated-failure-untold", In: "attempt.repeatAfter",
			What: "an attempt that the HTTP client repeats has no failure",
			Old:  "err: failure, brief: brief(failure)", New: "",
			Run: "Records",
		},
		mutant{
			ID: "lines-unlimited", In: "line.due",
			What: "a target that fails now and then fills the log",
			Old:  "now.Sub(l.at) < logEvery", New: "false",
			Run: "Changes",
		},
		mutant{
			ID: "late-line", In: "health.noteFailure",
			What: "a target that stays away is not logged where its beginning was not",
			Old:  "if !c.New && !c.Log {", New: "if !c.New {",
			Run: "Changes",
		},
		mutant{
			ID: "lines-in-pairs", In: "health.noteAnswer",
			What: "a target is said to answer again that was not said to be left alone",
			Old:  "Log: r.leftAlone.said ||", New: "Log: true ||",
			Run: "Changes",
		},
		mutant{
			ID: "few-calls", In: "health.shown",
			What: "a target that few calls try is never down",
			Old:  "h.record.failures >= downAfter", New: "false",
			Run: "Down",
		},
	)
}
