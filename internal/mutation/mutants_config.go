package main

func init() {
	add("internal/configpath",
		mutant{
			ID: "working-directory", In: "Resolve",
			What: "paths of a Caddyfile are relative to the working directory",
			Old:  "filepath.Abs(filepath.Dir(file))", New: "filepath.Abs(filepath.Dir(filepath.Base(file)))",
			Run: "TestResolve",
		},
	)
	add("internal/definition",
		mutant{
			ID: "any-provider", In: "Target.configured",
			What: "an endpoint may call a provider that is not configured",
			Old:  "configured || known == nil", New: "configured || known != nil || known == nil",
			Run: "TestProvidersThatAreNotConfigured",
		},
	)
	add("secret",
		mutant{
			ID: "silently-stale", In: "Rotating.refresh",
			What: "a key file that went bad is not told of",
			Old:  "		s.setStale(err)\n", New: "",
			Run: "TestStaleSecret",
		},
	)
	add("caddymodule",
		mutant{
			ID: "reload-without-providers", In: "Workspace.checkReload",
			What: "a reload does not check definitions for the providers of its Caddyfile",
			Old:  "definition.Load(dir, known)", New: "definition.Load(dir, make([]definition.Configuration, 0*len(known.Limits))...)",
			Run: "TestReloadKnowsTheProviders", Tests: []string{"cmd/caddy"},
		},
	)
}
