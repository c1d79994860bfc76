package main

func init() {
	add("invoke",
		mutant{
			ID: "cut-json-whole", In: "attempt.readWhole",
			What: "a whole answer of JSON that was cut is an answer",
			Old:  "return a.ended()", New: "return nil",
			Run: "TestJSONThat",
		},
		mutant{
			ID: "cut-json-of-nothing", In: "attempt.readFirst",
			What: "a stream of JSON that was cut before it began is an answer",
			Old:  "return a.ended()", New: "return nil",
			Run: "TestJSONThat",
		},
		mutant{
			ID: "cut-json-stream", In: "call.relay",
			What: "a stream of JSON that was cut ends in good order",
			Old:  "return a.ended()", New: "return nil",
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
