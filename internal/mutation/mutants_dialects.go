package main

func init() {
	add("internal/dialect",
		mutant{
			ID: "final-without-flush", In: "Stream.Finish",
			What: "the last event waits until the handler has returned",
			Old:  "	}, true)", New: "	}, false)",
			Run: "StreamGolden", Tests: []string{"internal/dialect/native"},
		},
		mutant{
			ID: "code-of-a-broken-stream", In: "Stream.Fail",
			What: "a stream that broke off says another code than upstream_interrupted",
			Old:  "Code: wire.UpstreamInterrupted", New: "Code: e.Code",
			Run: "StreamFailsAfterContent", Tests: []string{"internal/dialect/native"},
		},
		mutant{
			ID: "split-runes", In: "Stream.join",
			What: "a rune that is split over two deltas is garbled",
			Old:  "if s.heldLen > 0 {", New: "if false {",
			Run: "SplitRunes", Tests: []string{"internal/dialect/native"},
		},
	)
	add("internal/gateway",
		mutant{
			ID: "history-unasked", In: "call.checkBrought",
			What: "any endpoint takes its caller's messages",
			Old:  "len(request.Turns) > 0 && !accept.History", New: "false",
			Run: "TestWhatIsNotAccepted",
		},
		mutant{
			ID: "instructions-of-callers", In: "call.checkBrought",
			What: "a caller adds a system message",
			Old:  "!accept.System && (role", New: "false && (role",
			Run: "TestWhatIsNotAccepted",
		},
		mutant{
			ID: "opaque-data-of-others", In: "pin",
			What: "a target gets what another one has signed",
			Old:  " && m.origin == targets[at].String()", New: "",
			Run: "TestOpaqueData",
		},
		mutant{
			ID: "opaque-data-remembered", In: "invocation.tell",
			What: "a cached answer pins the conversations of all callers",
			Old:  " || isOpaque(&result.Result)", New: "",
			Run: "TestOpaqueData",
		},
		mutant{
			ID: "question-without-media", In: "askParts",
			What: "two images are the same question",
			Old:  "p.Media.Data, ", New: "",
			Run: "TestCachedConversations",
		},
		mutant{
			ID: "buffers-of-the-abandoned", In: "invocation.invoke",
			What: "a provider that goes on after its call sends another caller's messages",
			Old:  "return a.Abandoned }", New: "return false }",
			Run: "TestAbandonedProvidersKeepTheirRequest",
		},
		mutant{
			ID: "body-limit-of-the-largest", In: "call.checkBrought",
			What: "one endpoint that takes large bodies has all take them",
			Old:  "size > limit", New: "false && size > limit",
			Run: "TestBodiesOfConversations",
		},
	)
}
