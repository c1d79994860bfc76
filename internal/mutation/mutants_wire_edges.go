package main

func init() {
	add("internal/wire",
		mutant{
			ID: "comma-in-keys", In: "LegalKey",
			What: "a comma is legal in a key",
			Old:  "c >= '-'", New: "c >= ','",
			Run: "LegalKey",
		},
		mutant{
			ID: "least-duplicate", In: "repeated",
			What: "a repeated member is missed where it sorts first",
			Old:  "i := 1", New: "i := 2",
			Run: "BadBodies",
		},
		mutant{
			ID: "low-surrogate-first", In: "checkUnicodeEscape",
			What: "the low half of a pair may begin one",
			Old:  "r < 0xDC00", New: "r < 0xE000",
			Run: "Surrogates",
		},
	)
}
