package main

// Variables that take their default from a remote configuration.
func init() {
	add("internal/prompt",
		mutant{
			ID: "configured-unread", In: "Variables.Bind",
			What: "a configuration is read for a variant that has no such variable",
			Old:  "a == nil || a.reads(i)", New: "true",
			Tests: []string{"internal/definition"}, Run: "TestConfiguredVariables",
		},
		mutant{
			ID: "configured-size", In: "Variables.Bind",
			What: "the text of a configuration has the size of the default",
			Old:  "t.bytes, ^t.escaped", New: "t.bytes, ^s.text.escaped",
			Tests: []string{"internal/definition"}, Run: "TestConfiguredVariables",
		},
		mutant{
			ID: "configured-read-kept", In: "Values.begin",
			What: "what one prompt read counts for the next",
			Old:  "	values.forgetRead()\n", New: "",
			Tests: []string{"internal/definition"}, Run: "TestConfiguredVariables",
		},
		mutant{
			ID: "configured-default", In: "Values.configure",
			What: "a default is not used where the value has no such path",
			Old:  "return &s.text", New: "return &text{}",
			Tests: []string{"internal/definition"}, Run: "TestConfiguredVariables",
		},
	)
	add("internal/definition",
		mutant{
			ID: "configured-stale", In: "loader.configured",
			What: "a prompt keeps the texts of a configuration that was edited",
			Old:  "	d.refer(trace.KindRemoteConfig, at, c, c != nil)\n", New: "",
			Run: "TestLoadAgain",
		},
		mutant{
			ID: "configured-unbounded", In: "Prompt.size",
			What: "the texts of configurations count among no ceiling",
			Old:  " + p.texts", New: "",
			Run: "TestBombs/many_variables",
		},
		mutant{
			ID: "configured-null", In: "leads.text",
			What: "null is a value of a configuration, and not its absence",
			Old:  " && next.Type() != fastjson.TypeNull", New: "",
			Run: "TestConfiguredVariables|TestConfiguredMistakes",
		},
		mutant{
			ID: "configured-version", In: "Prompt.sealPrompt",
			What: "a prompt keeps its version where a variable reads another part",
			Old:  `c["path"] = from.Path`, New: `c["path"] = ""`,
			Run: "TestConfiguredVersions",
		},
	)
	add("internal/gateway",
		mutant{
			ID: "configured-unrecorded", In: "call.noteVariables",
			What: "a trace does not have the configurations that variables were taken from",
			Old:  "c.evidence.trail.Ask(config.Table(), &c.binding)", New: "_ = config",
			Run: "TestConfigurationsThatVariablesReadAreRecorded",
		},
		mutant{
			ID: "mixed-revisions", In: "call.pickConfigs",
			What: "the keys of a request are answered from the definitions of their moment",
			Old:  "c.snapshot.RemoteConfig(key)", New: "c.workspace.Source.Snapshot().RemoteConfig(key)",
			Run: "TestMustHoldOneRevision",
		},
	)
	add("internal/inspect",
		mutant{
			ID: "configured-diff", In: "changedConfigs",
			What: "a prompt is affected by an edit of a part that it does not read",
			Old:  "!sameValue(valueAt(a.Old.Value, from.Path), valueAt(a.New.Value, from.Path))", New: "true",
			Run: "TestCompareConfigured",
		},
	)
}
