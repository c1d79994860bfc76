package main

func init() {
	add("providers/upstream",
		mutant{
			ID: "trace-context-of-the-first-try", In: "limiter.RoundTrip",
			What: "a repeat is sent without the trace context of its attempt",
			Old:  "l.transport.RoundTrip(traced(req))", New: "l.transport.RoundTrip(req)",
			Run: "TestTraceContext",
		},
		mutant{
			ID: "state-of-others", In: "traced",
			What: "a provider gets a tracestate that is not that of the span",
			Old:  "if delete(again.Header, headerState); state != \"\"", New: "if state != \"\"",
			Run: "TestTraceContext",
		},
		mutant{
			ID: "header-in-place", In: "traced",
			What: "the header that tries share is changed",
			Old:  "req.Header.Clone()", New: "req.Header",
			Run: "TestTraceContext",
		},
	)
	add("internal/invoke",
		mutant{
			ID: "span-before-the-wait", In: "attempt.openSpan",
			What: "the span of a retry begins with the wait before it",
			Old:  "a.StartSpan(a.index, r, a.beganAt)", New: "a.StartSpan(a.index, r, a.beganAt.Add(-r.Wait))",
			Run: "TestSpans",
		},
		mutant{
			ID: "trace-context-of-the-first-attempt", In: "attempt.TraceContext",
			What: "a retry has the trace context of the attempt before",
			Old:  "a.records[len(a.records)-1].Span", New: "a.records[0].Span",
			Run: "TestSpans",
		},
	)
	add("internal/gateway",
		mutant{
			ID: "spans-of-what-was-not-made", In: "invocation.traceEnd",
			What: "an attempt that was not made is a span of its own, and those that were end twice",
			Old:  "	s.open = nil // also those of attempts that were not made: they have no end\n", New: "",
			Run: "TestSpansOfAHedge",
		},
		mutant{
			ID: "superseded-is-a-failure", In: "invocation.traceEnd",
			What: "an attempt that lost a hedge is a failure of its provider",
			Old:  " && a.Code != string(invoke.Superseded)", New: "",
			Run: "TestSpansOfAHedge",
		},
		mutant{
			ID: "spans-of-panics", In: "invocation.trace",
			What: "the span of an attempt that panicked never ends",
			Old:  "	return spans.end\n", New: "	return func() {}\n",
			Run: "TestSpansOfAPanic",
		},
		mutant{
			ID: "content-of-spans", In: "invocation.trace",
			What: "spans have messages and answers, whatever the log policy is",
			Old:  "content: i.policy == definition.LogContent", New: "content: i.policy == definition.LogContent || len(i.request.Messages) > 0",
			Run: "TestTracing", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "sampled-out", In: "invocation.trace",
			What: "a provider is not told that a request is sampled out",
			Old:  "{ return sampledOut }", New: "{ _ = sampledOut; return nil }",
			Run: "TestTracing", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "definitions-told-twice", In: "Workspace.emitDefinitions",
			What: "a reload tells of definitions that are the same",
			Old:  "	case before != nil && *before == state:\n", New: "",
			Run: "TestEvents$", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "model-as-the-provider-says", In: "invocation.describeEnd",
			What: "the access log has a provider's text as the model",
			Old:  "i.request.Targets[result.Served].Model\n", New: "result.Model\n",
			Run: "TestAccessLog", Tests: []string{"caddymodule"},
		},
	)
	add("caddymodule",
		mutant{
			ID: "events-in-requests", In: "emitter.run",
			What: "a request waits for the handlers of its events",
			Old:  "		go e.emitAll()\n", New: "		e.mu.Unlock()\n		e.emitAll()\n		e.mu.Lock()\n",
			Run: "TestEvents$",
		},
		mutant{
			ID: "events-of-the-old-configuration", In: "stopHandler.Handle",
			What: "the events of a request that outlives its configuration are lost",
			Old:  "	h.app.emitter.stop()\n", New: "",
			Run: "TestEventsAfterAReload",
		},
		mutant{
			ID: "events-without-end", In: "emitter.emit",
			What: "so many events wait for a slow handler as happen",
			Old:  "len(e.waiting) >= maxEvents", New: "len(e.waiting) > 10*maxEvents",
			Run: "TestEventsThatWait",
		},
	)
}
