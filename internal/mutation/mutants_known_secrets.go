package main

func init() {
	add("internal/redact",
		mutant{
			ID: "hash-of-a-field", In: "finder.isHash",
			What: "an API key that a caller sends in a field by the name of hash is recorded",
			Old:  "`:{\"hash\":\"`", New: "`{\"hash\":\"`",
			Run: "TestInputs",
		},
		mutant{
			ID: "window", In: "NewValues",
			What: "the search leaps over a value",
			Old:  "uint8(v.window-2-i)", New: "uint8(v.window-1-i)",
			Run: "ManyValues|KnownValues",
		},
		mutant{
			ID: "escaped-values", In: "Values.add",
			What: "a known value is kept where JSON in JSON escapes it",
			Old:  "escaped(once, false), escaped(html, false),", New: "",
			Run: "KnownValues",
		},
		mutant{
			ID: "broken-escape", In: "finder.findValues",
			What: "a known value is taken out of the middle of an escape",
			Old:  "out > start", New: "false",
			Run: "KnownValues",
		},
	)
	add("secret",
		mutant{
			ID: "forgotten", In: "Rotating.take",
			What: "a key that was replaced is not known",
			Old:  "		Remember(value)\n", New: "",
			Run: "Rotates",
		},
		mutant{
			ID: "ceiling", In: "Remember",
			What: "the values that are known have no ceiling",
			Old:  "> maxKnown {", New: "> 2*maxKnown {",
			Run: "Bounded",
		},
	)
	add("providers/upstream",
		mutant{
			ID: "user-information", In: "redact",
			What: "error texts have the user information of a URL",
			Old:  "	text = urlUser.ReplaceAllString(text, \"$1\"+redacted+\"@\")\n", New: "",
			Run: "Redact",
		},
		mutant{
			ID: "known-secrets", In: "redact",
			What: "error texts have a secret of another call",
			Old:  "text = secret.Known().Replace(text, redacted)", New: "_ = secret.Known",
			Run: "Redact",
		},
	)
}
