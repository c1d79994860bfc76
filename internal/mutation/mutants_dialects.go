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
}
