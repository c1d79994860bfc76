package main

// Endpoints whose tables decide how they call.
func init() {
	add("internal/definition",
		mutant{
			ID: "policy-inherits", In: "policyReader.variants",
			What: "a variant of an endpoint has nothing of what is beside variants",
			Old:  "cmp.Or(base, outside)", New: "cmp.Or(base, &writtenPolicy{})",
			Run: "TestEndpointVariants$",
		},
		mutant{
			ID: "policy-own", In: "policyReader.read",
			What: "a mistake that a variant makes is shown where another one is",
			Old:  "\t\t\tw.own[name], w.places[name] = m, m\n", New: "\t\t\tw.places[name] = m\n",
			Run: "TestEndpointVariantsThatAreWrong",
		},
		mutant{
			ID: "policy-on-codes", In: "Retry.decode",
			What: "retry.count of a variant removes the on_codes that it inherits",
			Old:  "\tif m == nil {\n\t\treturn\n\t}\n\tr.OnCodes = nil", New: "\tr.OnCodes = nil",
			Run: "TestEndpointVariants$",
		},
		mutant{
			ID: "policy-idle", In: "policyReader.works",
			What: "a member that works in one variant is warned of for another",
			Old:  "r.idle[at] = nil", New: "_ = at",
			Run: "TestEndpointVariantsWarn",
		},
		mutant{
			ID: "policy-misplaced", In: "policyReader.checkVariant",
			What: "a variant's log is a misspelling",
			Old:  "slices.Contains(commonMembers, name) && name != \"description\", ", New: "",
			Run: "TestEndpointVariantsThatAreWrong",
		},
		mutant{
			ID: "policy-unused", In: "Endpoint.warnUnused",
			What: "a variant that others extend counts as unused",
			Old:  " && !extended[p.Key]", New: " && true",
			Run: "TestEndpointVariantsWarn",
		},
		mutant{
			ID: "policy-content", In: "policyReader.variants",
			What: "variants of an endpoint inherit without end",
			Old:  "size += p.size(); size > MaxContent", New: "size += p.size(); false",
			Run: "TestBombs/variants_of_an_endpoint",
		},
	)
	add("internal/gateway",
		mutant{
			ID: "question-without-policy", In: "call.question",
			What: "the variants of an endpoint share their answers",
			Old:  "how.Key, ", New: "",
			Run: "TestEndpointVariantsDecide|TestQuestion",
		},
		mutant{
			ID: "choice-of-the-prompt", In: "call.choosePolicy",
			What: "the remembered decision of an endpoint's table is that of a prompt",
			Old:  "c.decide(trace.KindEndpoint,", New: "c.decide(trace.KindPrompt,",
			Run: "TestEndpointDecisionsAreRemembered",
		},
		mutant{
			ID: "choice-without-evidence", In: "call.addChoice",
			What: "a trace lacks the splits of the endpoint's own table",
			Old:  "c.addEvidence(table, chosen)", New: "_ = table",
			Run: "TestEndpointVariantsAreRecorded",
		},
	)
	add("internal/inspect",
		mutant{
			ID: "unvaried-endpoint", In: "newTableDiff",
			What: "the comparison of an endpoint does not see that it has variants now",
			Old:  "tableOf(before, kind, key) == nil && tableOf(after, kind, key) == nil", New: "tableOf(before, kind, key) == nil || tableOf(after, kind, key) == nil",
			Run: "TestCompareEndpointVariants",
		},
	)
}
