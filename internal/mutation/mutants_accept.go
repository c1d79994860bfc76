package main

// What callers may bring to an endpoint.
func init() {
	add("internal/definition",
		mutant{
			ID: "accept-unversioned", In: "Endpoint.sealEndpoint",
			What: "endpoints that accept different things have one version",
			Old:  "accept != nil", New: "false && accept != nil",
			Run: "TestAcceptComesBack",
		},
		mutant{
			ID: "accept-any-tools", In: "Accept.Check",
			What: "an endpoint takes a caller's tools without a word of its definition",
			Old:  "!a.Tools", New: "false",
			Run: "TestAccept$",
		},
		mutant{
			ID: "accept-any-parameter", In: "Accept.Check",
			What: "an endpoint takes a caller's parameters without a word of its definition",
			Old:  "	if !ok {\n		return notAccepted", New: "	if !ok {\n		return \"\"",
			Run: "TestAccept$",
		},
		mutant{
			ID: "accept-no-ceiling", In: "ceiling.checkNumber",
			What: "a ceiling holds nobody",
			Old:  "case v > c.hi:", New: "case false:",
			Run: "TestAccept$",
		},
		mutant{
			ID: "accept-below", In: "ceiling.checkNumber",
			What: "0..<1 takes the 1",
			Old:  "c.below && v >= c.hi", New: "c.below && v > c.hi",
			Run: "TestAccept$",
		},
	)
}
