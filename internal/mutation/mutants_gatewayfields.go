package main

func init() {
	add("rules",
		mutant{
			ID: "sent-by-callers", In: "Binding.bindMember",
			What: "a caller's member of the context sets a field of the gateway",
			Old:  "ok && b.simulated && m.isGateway(slot)", New: "ok && m.isGateway(slot)",
			Run: "TestGatewayFields|TestAgainstReference",
		},
		mutant{
			ID: "gateway-needs-context", In: "Table.tries",
			What: "a table that reads the gateway's fields is not tried without a context",
			Old:  "(b.hasContext || t.gateway)", New: "b.hasContext",
			Run: "TestGatewayFields",
		},
		mutant{
			ID: "gateway-cached", In: "Table.Cacheable",
			What: "a decision by the gateway's fields is cached",
			Old:  " && !t.gateway", New: "",
			Run: "TestGatewayFields",
		},
		mutant{
			ID: "gateway-behind-segments", In: "Model.orderSegments",
			What: "a segment does not ask for the gateway's fields",
			Old:  "int(slot) >= m.sent", New: "int(slot) >= m.declared",
			Run: "TestGatewayFieldsBehindOthers",
		},
		mutant{
			ID: "inputs-of-others", In: "Table.AppendInputs",
			What: "without a context, a table that needs one keeps the inputs of those that do not",
			Old:  " && !slices.ContainsFunc(also, func(other *Table) bool { return other.tries(b) })", New: "",
			Run: "TestGatewayFieldsBehindOthers",
		},
		mutant{
			ID: "replay-needs-context", In: "Replay.Table",
			What: "a replay tries all tables of a request without a context",
			Old:  "r.noContext && !t.gateway", New: "false",
			Run: "TestReplayOf",
		},
		mutant{
			ID: "replay-by-hash", In: "Replay.inputs",
			What: "a value of the gateway that a record hides is taken for one that was",
			Old:  "v.Type() == fastjson.TypeObject && m.isGateway(slot)", New: "false",
			Run: "TestReplayOfGatewayFields",
		},
		mutant{
			ID: "gateway-insists", In: "Table.insists",
			What: "the analysis forgets requests without a context, which no data model refuses",
			Old:  " && !t.gateway", New: "",
			Run: "TestAnalyseGatewayFields",
		},
		mutant{
			ID: "units-of-the-gateway", In: "tableReader.unitField",
			What: "a split divides by a budget",
			Old:  "r.m.isGateway(slot)", New: "false",
			Run: "TestGatewayFieldMistakes",
		},
	)
	add("internal/definition",
		mutant{
			ID: "unknown-limit", In: "Snapshot.checkFields",
			What: "a table may read the budget of a limit that there is none of",
			Old:  "!slices.Contains(known.Limits, f.Limit)", New: "false",
			Run: "TestGatewayFieldsThatAreNotConfigured",
		},
		mutant{
			ID: "model-of-other-fields", In: "loader.decodeModel",
			What: "a data model is kept though the tables name other fields of the gateway",
			Old:  "slices.Equal(last.gateway, l.next.gateway)", New: "slices.Equal(last.gateway, last.gateway)",
			Run: "TestMemoryOfGatewayFields",
		},
	)
	add("internal/invoke",
		mutant{
			ID: "down-for-good", In: "Engine.Lets",
			What: "a target that is to be tried again counts as left alone, so that no table that turns to others asks it",
			Old:  "h.lets(time.Now())", New: "h.sound(time.Now())",
			Run: "TestLets",
		},
	)
	add("internal/gateway",
		mutant{
			ID: "budget-of-nobody", In: "call.Budget",
			What: "a request without a subject gets the budget that such requests have in common",
			Old:  `subject == "" && l.By != limit.ByWorkspace`, New: "false",
			Run: "TestSubjectsOfBudgetsInTables",
		},
		mutant{
			ID: "budget-of-the-endpoint", In: "call.plan",
			What: "a table does not know the endpoint whose budget it reads",
			Old:  "	c.asked = endpoint.Key\n", New: "",
			Run: "TestSubjectsOfBudgetsInTables",
		},
		mutant{
			ID: "one-is-all", In: "call.Down",
			What: "a provider is down with the first of its targets",
			Old:  "			return false, true\n		}\n	}\n	return ok, ok", New: "			return false, true\n		}\n		break\n	}\n	return ok, ok",
			Run: "TestHealthOfProviders",
		},
		mutant{
			ID: "unsaid-context", In: "call.recordEvidence",
			What: "a record does not say that its request had no context",
			Old:  "record.Notes = append(record.Notes, rules.NoteNoContext)", New: "",
			Run: "TestBudgetInTables|TestMustHoldProofOfKeptInputs",
		},
	)
}
