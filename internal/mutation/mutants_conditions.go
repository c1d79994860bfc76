package main

func init() {
	add("internal/gateway",
		mutant{
			ID: "conditions-of-an-old-snapshot", In: "Workspace.namedTargets",
			What: "a provider that an edit names is not looked at",
			Old:  "last != nil && last.snapshot == snapshot", New: "last != nil",
			Run: "TestProvidersThatAreUnavailable",
		},
		mutant{
			ID: "unavailable-since-the-first-time", In: "Workspace.unavailable",
			What: "a provider that is unavailable again is so since the first time",
			Old:  `return found[provider] == ""`, New: "return false",
			Run: "TestProvidersThatAreUnavailable",
		},
		mutant{
			ID: "keys-fault-without-its-begin", In: "Workspace.keysFail",
			What: "each further mistake of a keys file begins its time again",
			Old:  "		c.Since = last.Since\n", New: "		_ = last\n",
			Run: "TestKeysThatAreInvalid",
		},
		mutant{
			ID: "keys-fault-begins-with-a-reload", In: "Workspace.startKeys",
			What: "a reload forgets since when the keys file can't be used",
			Old:  "before != nil && now != nil", New: "before == now && now != nil",
			Run: "TestKeysThatAreInvalid",
		},
		mutant{
			ID: "no-zero-of-a-condition", In: "workspaceCollector.Collect",
			What: "a condition has no series before its first time",
			Old:  "		for _, code := range conditionCodes {\n", New: "		for code := range subjects {\n",
			Run: "TestNothingIsDegraded",
		},
		mutant{
			ID: "series-of-a-lost-workspace", In: "Workspace.end",
			What: "a workspace that is gone keeps its series",
			Old:  "	w.gateway.metrics.workspaces.remove(w)\n", New: "",
			Run: "TestMetricsOfAWorkspaceThatIsGone",
		},
		mutant{
			ID: "ready-before-the-start", In: "Gateway.readiness",
			What: "a gateway that has not started is ready",
			Old:  `return readiness{Status: "starting"}`, New: `return readiness{Status: "ok"}`,
			Run: "TestHealthBeforeStart",
		},
		mutant{
			ID: "unbounded-readiness", In: "Gateway.readiness",
			What: "an answer that needs no key grows with the definitions",
			Old:  "len(d.Subjects) < maxSubjects && ", New: "",
			Run: "TestHealthOfSeveralWorkspaces",
		},
		mutant{
			ID: "ok-since-the-start", In: "Workspace.Conditions",
			What: "a gateway that was degraded is ok since its start",
			Old:  "	if len(list) > 0 {\n", New: "	if false {\n",
			Run: "TestHealth$",
		},
	)
	add("internal/gateway",
		mutant{
			ID: "down-without-a-name", In: "Workspace.Conditions",
			What: "a target that is left alone is no condition",
			Old:  "		if t.Down {\n", New: "		if false {\n",
			Run: "TestTargetThatIsDown",
		},
		mutant{
			ID: "expired-key-is-valid", In: "keyring.states",
			What: "the status shows a key that has expired as valid",
			Old:  "now.After(p.notAfter)", New: "false",
			Run: "TestStatus$",
		},
	)
	add("internal/gateway",
		mutant{
			ID: "changes-of-a-restored-set", In: "Workspace.serves",
			What: "the log never says what an edit of definitions changed",
			Old:  "	w.last = snapshot\n", New: "",
			Run: "TestChangesAreLogged",
		},
		mutant{
			ID: "change-of-the-data-model", In: "changes",
			What: "the log does not name a change of the data model",
			Old:  "last.Context() != next.Context()", New: "bytes.Equal(nil, []byte{0})",
			Run: "TestChangesAreLogged",
		},
		mutant{
			ID: "restored-is-sound", In: "Workspace.Conditions",
			What: "a gateway that serves what its store holds is not degraded by it",
			Old:  "!definitions.Restored.IsZero()", New: "false",
			Run: "TestDefinitionsThatAreRestored",
		},
	)
	add("internal/command",
		mutant{
			ID: "degraded-exits-with-0", In: "statusCommand",
			What: "a script takes a degraded gateway for a sound one",
			Old:  `answer.Status == "ok"`, New: `answer.Status != ""`,
			Run: "TestStatusCommand",
		},
	)
	add("caddymodule",
		mutant{
			ID: "ready-while-it-stops", In: "shuttingDown",
			What: "a load balancer sends requests to a gateway that stops",
			Old:  "soon == true", New: "soon == nil",
			Run: "TestHealthOfAListenerThatCloses",
		},
	)
}
