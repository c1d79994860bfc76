package main

// What the tests killed when the list was made.
func init() {
	add("internal/prompt",
		mutant{
			ID: "variables-in-json", In: "Answer.Append",
			What: "a variable breaks the JSON of the answer",
			Old:  "jsontext.AppendEscaped(dst, v.text[p.slot])", New: "append(jsontext.AppendEscaped(dst, v.text[p.slot][:0]), v.text[p.slot]...)",
			Run: "Render",
		},
		mutant{
			ID: "escaping-backslash", In: "Compile",
			What: "the backslash of \\{{ is rendered",
			Old:  "(backslashes+1)/2", New: "backslashes/2",
			Run: "Render",
		},
		mutant{
			ID: "required-variable", In: "Variables.Bind",
			What: "a required variable may be missing",
			Old:  "if s.required {", New: "if false {",
			Run: "TestBind",
		},
		mutant{
			ID: "supplied-before", In: "Values.take",
			What: "what the last request supplied counts for the next",
			Old:  "vars == values.source", New: "values.source != nil",
			Run: "TestBind",
		},
	)
}
