package main

func init() {
	add("internal/invoke",
		mutant{
			ID: "cut-json-whole", In: "Target.readWhole",
			What: "a whole answer of JSON that was cut is an answer",
			Old:  "	r.err = t.ended(r.stream)\n", New: "",
			Run: "TestJSONThat",
		},
		mutant{
			ID: "cut-json-of-nothing", In: "Target.readFirst",
			What: "a stream of JSON that was cut before it began is an answer",
			Old:  "			r.err = t.ended(r.stream)\n", New: "",
			Run: "TestJSONThat",
		},
		mutant{
			ID: "cut-json-stream", In: "call.relayAll",
			What: "a stream of JSON that was cut ends in good order",
			Old:  "			r.err = a.target.ended(stream)\n", New: "",
			Run: "TestJSONThat",
		},
		mutant{
			ID: "cut-answers-eject", In: "classes",
			What: "too small a max_tokens ejects the target",
			Old:  `cut it", Next: true,`, New: `cut it", Next: true, Counts: true,`,
			Run: "TestCutAnswers",
		},
	)
}
