package main

// The memory of large requests that the next one uses again.
func init() {
	add("internal/buffers",
		mutant{
			ID: "kept-unbounded", In: "Pool.Put",
			What: "the memory that is kept has no bound",
			Old:  "kept.Add(n) > maxKept", New: "kept.Add(n) < 0",
			Run: "TestKeptIsBounded",
		},
		mutant{
			ID: "kept-counted-for-good", In: "Pool.Put",
			What: "what the garbage collector takes counts for good, and soon nothing is kept",
			Old:  "it.cleanup = runtime.AddCleanup(it, uncount, n)", New: "_ = runtime.AddCleanup[item[T], int64]",
			Run: "TestKeptIsBounded",
		},
	)
	add("providers/upstream",
		mutant{
			ID: "lent-without-reader", In: "loan.reader",
			What: "a request's memory goes to the next one while its transport reads it",
			Old:  "	l.users.Add(1)\n", New: "",
			Run: "TestLend",
		},
		mutant{
			ID: "lent-closed-twice", In: "loanReader.Close",
			What: "a body that is closed twice gives back the memory of another reader",
			Old:  "if r.closed {", New: "if false {",
			Run: "TestLend",
		},
	)
}
