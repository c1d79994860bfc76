package main

// What the tests killed when the list was made.
func init() {
	add("internal/definition",
		mutant{
			ID: "first-token-beyond-total", In: "policyReader.finishTimeout",
			What: "the first token may take longer than the whole",
			Old:  "t.FirstToken, t.Idle = min(t.FirstToken, t.Total), min(t.Idle, t.Total)", New: "t.Idle = min(t.Idle, t.Total)",
			Run: "TestEndpoint",
		},
		mutant{
			ID: "version-without-hedge", In: "Policy.content",
			What: "endpoints that differ in their hedge have one version",
			Old:  "p.HedgeAfter > 0", New: "false",
			Run: "WeightsAndHedgeArePartOfTheVersion",
		},
		mutant{
			ID: "version-without-retries", In: "Policy.content",
			What: "endpoints that differ in their retries have one version, and one answer in the cache",
			Old:  "p.Retry.Count != nil", New: "false",
			Run: "FieldsOfAnEndpointAreWired", Tests: []string{"internal/gateway"},
		},
		mutant{
			ID: "revision-without-model", In: "loader.revision",
			What: "another data model is the same revision",
			Old:  "[]any{cellValue(l.model), entries}", New: "[]any{entries}",
			Run: "RevisionAndVersions",
		},
		mutant{
			ID: "stale-reference", In: "buildOne",
			What: "what refers to a definition keeps it as it was",
			Old:  " && l.sameRefs(b.refs)", New: "",
			Run: "LoadAgain",
		},
		mutant{
			ID: "stamp-without-its-change", In: "stampOf",
			What: "an edit that keeps size and time is not read",
			Old:  "changed: s.Ctim.Nano()", New: "changed: 0",
			Run: "LoadAgain",
		},
		mutant{
			ID: "stamp-of-a-moment-ago", In: "stampAt",
			What: "a second edit within a step of the clock is not read",
			Old:  "return stamp{}", New: "return s",
			Run: "LoadAgain",
		},
		mutant{
			ID: "failure-stays", In: "Source.Reload",
			What: "a mended edit is still shown as broken",
			Old:  "	s.failure.Store(nil)\n", New: "",
			Run: "Reload",
		},
		mutant{
			ID: "every-touch-is-news", In: "Source.Reload",
			What: "a touched file is news to everybody",
			Old:  "if last == nil && next", New: "if false && next",
			Run: "Reload",
		},
		mutant{
			ID: "rendered-size", In: "Variant.checkText",
			What: "a prompt may become as large as its variables",
			Old:  "size > prompt.MaxRendered", New: "size < 0",
			Run: "RenderedSizeIsBounded",
		},
		mutant{
			ID: "busy-directory", In: "changes.wait",
			What: "a directory that never rests is never loaded",
			Old:  "min(wait, max(c.deadline.Sub(now), 0))", New: "wait",
			Run: "Watch",
		},
	)
}
