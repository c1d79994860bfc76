package main

func init() {
	add("internal/gateway",
		mutant{
			ID: "series-of-removed-names", In: "seriesNames.follow",
			What: "a definition that is removed keeps its series",
			Old:  "if !next.names[name] {", New: "if next.names == nil && name == \"\" {",
			Run: "TestSeriesGoWithTheirNames",
		},
		mutant{
			ID: "series-of-all-names", In: "seriesNames.sweep",
			What: "the removal of one definition deletes the series of the others too",
			Old:  `labels["workspace"] == workspace && !slices`, New: `labels["workspace"] == workspace || !slices`,
			Run: "TestSeriesGoWithTheirNames",
		},
		mutant{
			ID: "series-of-a-limit-that-is-gone", In: "seriesNames.end",
			What: "a limit that the configuration no longer has keeps its series",
			Old:  "n.metrics.limits.end(w, n.running[w.Name])", New: "_ = w",
			Run: "TestSeriesGoWithTheirWorkspace",
		},
		mutant{
			ID: "series-of-a-workspace-that-ended", In: "seriesNames.end",
			What: "a workspace that the configuration no longer has keeps its series",
			Old:  `family.DeletePartialMatch(prometheus.Labels{"workspace": w.Name})`, New: "_ = family",
			Run: "TestSeriesGoWithTheirWorkspace",
		},
		mutant{
			ID: "requests-of-several-keys", In: "call.asksKeys",
			What: "a request for several keys counts for the first one",
			Old:  "len(prompts)+len(configs) != 1", New: "len(prompts)+len(configs) < 1",
			Run: "TestRequestsAndAnswersAreCounted",
		},
		mutant{
			ID: "names-of-removed-targets", In: "invocation.countAttempt",
			What: "a call brings the series of a target back that was removed meanwhile",
			Old:  "		name = modelName{provider: served.provider(a.Provider)}\n		t = m.newTargetSeries(workspace, name.provider, \"\")\n", New: "		t = m.newTargetSeries(workspace, a.Provider, a.Model)\n",
			Run: "TestCallOfARemovedDefinition",
		},
		mutant{
			ID: "retries-of-other-targets", In: "invocation.countAttempt",
			What: "an attempt after that of another target counts as a retry",
			Old:  "earlier.Provider == a.Provider && earlier.Model == a.Model", New: "earlier != nil",
			Run: "TestHedgesAndFirstTokensAreCounted",
		},
		mutant{
			ID: "old-snapshots-series", In: "Workspace.seriesOf",
			What: "a request that sees an edit before the workspace does is not counted",
			Old:  "return s.definitions[sameIn(s.snapshot, d)]", New: "return nil",
			Run: "TestRequestsOfAnOldSnapshot",
		},
	)
}
