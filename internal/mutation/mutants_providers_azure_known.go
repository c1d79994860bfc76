package main

// What the tests killed when the list was made.
func init() {
	add("providers/azure",
		mutant{
			ID: "key-header", In: "Module.Provision",
			What: "the key of Azure is sent as a bearer token",
			Old:  "		config.KeyHeader = \"api-key\"\n", New: "		_ = config\n",
			Run: "TestRequest",
		},
	)
}
