package main

// Aliases of definitions.
func init() {
	add("internal/definition",
		mutant{
			ID: "alias-of-a-key", In: "loader.readAliases",
			What: "an alias may be the key of another definition",
			Old:  "case other != nil:", New: "case false:",
			Run: "TestAliasMistakes",
		},
		mutant{
			ID: "alias-of-two", In: "loader.readAliases",
			What: "two definitions may have the same alias",
			Old:  "case taken:", New: "case taken && owner == \"\":",
			Run: "TestAliasMistakes",
		},
		mutant{
			ID: "alias-in-no-revision", In: "loader.revision",
			What: "an edit of nothing but aliases is not told, and not stored",
			Old:  "d.Version, d.Aliases}", New: "d.Version, nil}",
			Run: "TestAliasesOfAnEdit|TestRevisionAndVersions",
		},
	)
	add("internal/gateway",
		mutant{
			ID: "alias-of-a-prompt", In: "call.pickPrompts",
			What: "a prompt is answered under its key and not under the name asked for",
			Old:  "p.AskedAs(key)", New: "p.Key",
			Run: "TestAliasesAreAnswered",
		},
		mutant{
			ID: "alias-of-a-config", In: "call.pickConfigs",
			What: "a configuration is answered under its key and not under the name asked for",
			Old:  "config.AskedAs(key)", New: "config.Key",
			Run: "TestAliasesAreAnswered",
		},
		mutant{
			ID: "alias-of-a-model", In: "call.admitted",
			What: "an answer's model is the endpoint's key and not the name asked for",
			Old:  "endpoint.AskedAs(request.Endpoint)", New: "endpoint.Key",
			Run: "TestAliasesAreAnswered",
		},
		mutant{
			ID: "alias-unmetered", In: "call.knowsOne",
			What: "a request by an alias does not count by its metadata",
			Old:  "c.snapshot.RemoteConfig(key)", New: "c.snapshot.RemoteConfigs[key]",
			Run: "TestAliasesCountAsTheirKey",
		},
		mutant{
			ID: "alias-uncounted", In: "call.asksKeys",
			What: "a refused request by an alias is told without its key",
			Old:  "c.snapshot.Prompt(prompts[0])", New: "c.snapshot.Prompts[prompts[0]]",
			Run: "TestAliasesCountAsTheirKey",
		},
	)
}
