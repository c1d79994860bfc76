package main

func init() {
	add("internal/limit",
		mutant{
			ID: "inspect-ended-lease", In: "Limiter.lease",
			What: "a lease is shown that ended with its window",
			Old:  "start > c.start", New: "start > c.start && false",
			Run: "TestInspectingLeases",
		},
		mutant{
			ID: "inspect-others-unnamed", In: "Limiter.Inspect",
			What: "what all without room of their own have used is shown as one subject's",
			Old:  "a == none", New: "true",
			Run: "TestInspectingOthers",
		},
		mutant{
			ID: "inspect-not-shared", In: "Limiter.Inspect",
			What: "calls under way are said to be shared",
			Old:  " && of.Measure != InFlight", New: "",
			Run: "TestInspectingLeases",
		},
	)
	add("internal/gateway",
		mutant{
			ID: "subject-left-is-set-aside", In: "Workspace.subjectUse",
			What: "what is set aside is shown as left",
			Old:  "-s.Used-s.Reserved", New: "-s.Used",
			Run: "TestHowLimitsAreShown",
		},
		mutant{
			ID: "subject-of-workspaces", In: "Workspace.SubjectStatus",
			What: "a limit by workspace is shown unused",
			Old:  `ask.Subject = ""`, New: "ask.Subject = subject",
			Run: "TestASubjectOfALimitByWorkspace",
		},
	)
	add("internal/command",
		mutant{
			ID: "subject-empty", In: "limitsCommand",
			What: "the requests without a value can't be asked for",
			Old:  `values := url.Values{"subject": {args[0]}}`, New: "values := url.Values{}\nsetGiven(values, \"subject\", args[0])",
			Run: "TestLimitsCommand",
		},
	)
}
