package main

func init() {
	add("caddymodule",
		mutant{
			ID: "option-lost", In: "Workspace.provision",
			What: "the gateway does not get an option of the configuration",
			Old:  "MaxMetadataSize: w.MaxMetadataSize,", New: "",
			Run: "TestOptionsReachTheGateway",
		},
	)
}
