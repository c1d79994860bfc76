package main

func init() {
	add("internal/gateway",
		mutant{
			ID: "last-words", In: "waitForDelivery",
			What: "the error event of a stream that breaks over HTTP/3 is discarded",
			Old:  "case <-ctx.Done():", New: "default:",
			Run: "BrokenStreamOverEveryProtocol", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "reset-http10", In: "abort",
			What: "a proxy that speaks HTTP/1.0 ends a broken stream in good order",
			Old:  "reset(w)", New: "_ = w",
			Run: "BrokenStreamOverEveryProtocol", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "reset-under-tls", In: "reset",
			What: "a broken stream over HTTP/1.0 and TLS ends with a goodbye",
			Old:  "_ = inner.Close()", New: "_ = conn.Close()",
			Run: "BrokenStreamOverEveryProtocol", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "retry-after", In: "invocation.failed",
			What: "answers do not say how long a provider asks to wait",
			Old:  "told.RetryAfter = failure.RetryAfter", New: "_ = failure.RetryAfter",
			Run: "TheProvidersRetryAfter",
		},
		mutant{
			ID: "panic-answered", In: "Gateway.Serve",
			What: "a request that panics gets no answer",
			Old:  "g.logPanic(to, problem)\n", New: "panic(problem)\n",
			Run: "APanicEndsItsRequestAlone",
		},
		mutant{
			ID: "panic-in-stream", In: "invocation.stream",
			What: "a stream that a panic broke off ends in good order",
			Old:  "defer i.endPanicked(stream)", New: "",
			Run: "APanicEndsItsRequestAlone",
		},
	)
}
