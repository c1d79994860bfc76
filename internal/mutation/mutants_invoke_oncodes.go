package main

func init() {
	add("internal/invoke",
		mutant{
			ID: "no-statuses", In: "Policy.allowsStatus",
			What: "an empty on_codes means all statuses",
			Old:  "p.OnCodes == nil", New: "len(p.OnCodes) == 0",
			Tests: []string{"internal/invoke", "caddymodule"},
			Run:   "RetryPolicy|OnCodes",
		},
	)
}
