package main

func init() {
	add("internal/prompt",
		mutant{
			ID: "long-name", In: "ValidName",
			What: "a name of 128 characters is refused",
			Old:  "> 128", New: ">= 128",
			Run: "ValidName",
		},
	)
}
