package main

func init() {
	add("internal/redact",
		mutant{
			ID: "notion", In: "shapes",
			What: "keys of Notion are kept",
			Old:  `{"ntn_"`, New: `{"ntm_"`,
			Run: "EveryShape",
		},
		mutant{
			ID: "passwd", In: "secretLabels",
			What: "the text after passwd is kept",
			Old:  `"passwd"`, New: `"passwt"`,
			Run: "EveryLabel",
		},
		mutant{
			ID: "quadratic", In: "finder.shaped",
			What: "a long word is read again from each of its characters",
			Old:  "rest[:min(len(rest), maxDecisive)],", New: "rest,",
			Run: "LinearTime",
		},
	)
}
