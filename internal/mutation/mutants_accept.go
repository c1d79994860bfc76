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
			Old:  "	if !ok {\n		return NotAccepted(\"parameters: [\" + name + \"]\")", New: "	if !ok {\n		return \"\"",
			Run: "TestAccept$",
		},
		mutant{
			ID: "accept-no-ceiling", In: "ceiling.checkNumber",
			What: "a ceiling holds no caller",
			Old:  "case v > c.hi:", New: "case false:",
			Run: "TestAccept$",
		},
		mutant{
			ID: "accept-below", In: "ceiling.checkNumber",
			What: "0..<1 takes the 1",
			Old:  "c.below && v >= c.hi", New: "c.below && v > c.hi",
			Run: "TestAccept$",
		},
		mutant{
			ID: "history-torn", In: "unitStart",
			What: "a tool's result is sent without its call",
			Old:  "for i > 0 && turns[i].Role == \"tool\" {", New: "for false {",
			Run: "TestHistory",
		},
		mutant{
			ID: "history-question", In: "history.append",
			What: "a loop of tools loses the question",
			Old:  "i == question ||", New: "question < 0 ||",
			Run: "TestHistory$",
		},
		mutant{
			ID: "history-too-large", In: "history.trim",
			What: "messages beyond max_bytes are sent",
			Old:  "if room.bytes < 0 {", New: "if false {",
			Run: "TestHistoryTooLarge",
		},
		mutant{
			ID: "history-nowhere", In: "Endpoint.checkHistory",
			What: "an endpoint takes messages that go nowhere",
			Old:  "e.Accept.History && !v.takesHistory", New: "false",
			Run: "TestHistoryAndEndpoints",
		},
		mutant{
			ID: "media-unchecked", In: "contentPart.address",
			What: "any text of a request is sent as an image",
			Old:  "if problem != \"\" {", New: "if false {",
			Run: "TestBadMedia",
		},
		mutant{
			ID: "media-http", In: "contentPart.read",
			What: "a request has an image fetched over http",
			Old:  "case m.URL != \"\" && !", New: "case false && !",
			Run: "TestBadMedia",
		},
		mutant{
			ID: "media-with-variable", In: "decodePart",
			What: "a request chooses a part of the address that a definition has",
			Old:  "case mixed:", New: "case mixed && false:",
			Run: "TestPartMistakes",
		},
		mutant{
			ID: "media-empty", In: "contentPart.always",
			What: "an image that is not supplied is in the prompt's answer",
			Old:  "return p.slot < 0", New: "return true",
			Run: "TestParts$",
		},
		mutant{
			ID: "media-unbounded", In: "Variant.checkText",
			What: "a prompt repeats an image without end",
			Old:  "size > prompt.MaxMedia", New: "false",
			Run: "TestMediaIsBounded",
		},
	)
}
