package main

func init() {
	add("internal/gateway",
		mutant{
			ID: "values-unknown", In: "Gateway.newWorkspace",
			What: "the gateway's own secrets are recorded",
			Old:  "secret.Known)", New: "func() *redact.Values { _ = secret.Known; return nil })",
			Run: "Canaries", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "trace-key-unknown", In: "Gateway.newWorkspace",
			What: "the trace key is recorded",
			Old:  "		secret.Remember(value)\n", New: "",
			Run: "Canaries", Tests: []string{"caddymodule"},
		},
	)
	add("internal/gateway",
		mutant{
			ID: "notes-unredacted", In: "Workspace.redactRequest",
			What: "notes have secrets",
			Old:  "	w.redactNotes(record)\n", New: "",
			Run: "Canaries", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "model-unredacted", In: "Workspace.redactAnswer",
			What: "the name of a model is stored as the upstream sent it",
			Old:  "w.redactor.String(record.Model)", New: "record.Model",
			Run: "Canaries", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "failure-in-full", In: "invocation.logFailure",
			What: "a provider's words are logged with log metadata",
			Old:  "failure.Brief()", New: "failure.Error()",
			Run: "Canaries", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "failure-unredacted", In: "invocation.logFailure",
			What: "what a provider quotes is logged with its secrets",
			Old:  "i.workspace.redactor.String(failure.Error())", New: "failure.Error()",
			Run: "Canaries", Tests: []string{"caddymodule"},
		},
	)
	add("internal/invoke",
		mutant{
			ID: "late-pieces", In: "call.pass",
			What: "a piece is handed on after the call has ended",
			Old:  "if w.abandoned {", New: "if false {",
			Run: "IgnoresItsContext",
		},
		mutant{
			ID: "held-by-a-provider", In: "call.relay",
			What: "a provider that ignores its context holds its caller",
			Old:  "if !a.obeys {", New: "if false {",
			Run: "ThatLeaves",
		},
		mutant{
			ID: "abandoned-without-end", In: "call.findUsable",
			What: "the calls that a provider goes on with have no ceiling",
			Old:  ">= maxAbandoned {", New: "> maxAbandoned {",
			Run: "AbandonedCalls",
		},
		mutant{
			ID: "late-streams", In: "attempt.awaitRead",
			What: "the stream of a call that has ended is left open",
			Old:  "func(r reading) { r.close() }", New: "func(reading) {}",
			Run: "LateStream",
		},
	)
	add("sinks/postgres",
		mutant{
			ID: "password-unknown", In: "Sink.connConfig",
			What: "the password of a sink is recorded",
			Old:  "secret.Remember(config.Password)", New: "secret.Remember(\"\")",
			Run: "PasswordIsKnown",
		},
	)
}
