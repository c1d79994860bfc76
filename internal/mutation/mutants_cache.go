package main

func init() {
	add("cache",
		mutant{
			ID: "wait-for-ever", In: "Answers.wait",
			What: "a request that waits for another's answer can't leave",
			Old:  "case <-ctx.Done():", New: "case <-make(chan struct{}):",
			Timeout: hang,
		},
		mutant{
			ID: "trust-the-hash", In: "Cache.Get",
			What: "a key whose hash is another's gets the other's value",
			Old:  "bytes.Equal(e.key, key)", New: "bytes.Equal(e.key, e.key)",
			Run: "KeysAreCompared",
		},
		mutant{
			ID: "threshold", In: "Worthwhile",
			What: "an evaluation at the threshold is not cached",
			Old:  ">=", New: ">",
			Run: "Worthwhile",
		},
	)
}
