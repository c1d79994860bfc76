package main

func init() {
	add("caddymodule",
		mutant{
			ID: "shared-sink-without-key", In: "Workspace.provisionSinks",
			What: "gateways that share a sink may make trace ids under different keys",
			Old:  `sink.Shared() && w.TraceKey == ""`, New: "false",
			Run: "TestSinkThatIsRefused",
		},

		// Commands.
	)
	add("internal/gateway",
		// The store and the sinks.
		mutant{
			ID: "retention-of-the-start", In: "Store.Config",
			What: "a reload does not change the retention",
			Old:  "func() time.Duration { return s.limits.current().Retention }", New: "(func(d time.Duration) func() time.Duration { return func() time.Duration { return d } })(s.limits.current().Retention)",
			Run: "TestRefusedReloadDeletesNothing", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "sink-loss", In: "Store.Config",
			What: "what a sink loses for the size of the store is not counted",
			Old:  "		OnLoss:           m.sinks.lose,\n", New: "",
			Run: "TestLossOfASinkIsCounted", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "sinks-of-the-store", In: "Store.Config",
			What: "the store deletes what its sinks have yet to take",
			Old:  "		Sinks:            s.sinks.names,\n", New: "",
			Run: "TestWaitingRowsOutliveARestart", Tests: []string{"caddymodule"},
		},

		mutant{
			ID: "guessed-trace-key", In: "Gateway.newWorkspace",
			What: "a trace key that can be guessed is used",
			Old:  "err := checkTraceKey(value); err != nil", New: "err := checkTraceKey(value); false",
			Run: "TestSinkThatIsRefused", Tests: []string{"caddymodule"},
		},
	)
	add("internal/gateway",
		// Leases.
		mutant{
			ID: "no-store-lease", In: "Gateway.answer",
			What: "a reload closes the store under a request",
			Old:  "	store.acquire()\n", New: "",
			Run: "TestLeases$",
		},
		mutant{
			ID: "no-leases", In: "Gateway.answer",
			What: "a reload closes the store and the caches under a stream, whose trace is lost",
			Old: `	store.acquire()
	memory.acquire()
	defer memory.release()
	defer store.release()
`, New: "	_, _ = store, memory\n",
			Run: "TestReloadDuringStream|TestLeases", Tests: []string{"internal/gateway", "caddymodule"},
		},
		mutant{
			ID: "no-leases-over-a-reload", In: "Gateway.answer",
			What: "the trace of a stream over a reload is lost",
			Old: `	store.acquire()
	memory.acquire()
	defer memory.release()
	defer store.release()
`, New: "	_, _ = store, memory\n",
			Run: "TestReloadDuringStream", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "store-lease-kept", In: "Gateway.answer",
			What: "a request never gives its lease of the store back",
			Old:  "	defer store.release()\n", New: "",
			Run: "TestFormerStoreIsClosed", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "memory-lease-kept", In: "Gateway.answer",
			What: "a request never gives its lease of the caches back",
			Old:  "	defer memory.release()\n", New: "",
			Run: "TestLeases$",
		},

		// The decision cache.
		mutant{
			ID: "decision-without-context", In: "call.decide",
			What: "everybody gets the decision of the first caller's context",
			Old:  "	key = table.AppendKey(key, &c.binding)\n", New: "",
			Run: "TestCostlyDecisionsAreRemembered",
		},
		mutant{
			ID: "decision-without-revision", In: "call.decide",
			What: "decisions outlive a change of the definitions",
			Old:  "c.snapshot.Revision", New: `""`,
			Run: "TestCostlyDecisionsAreRemembered",
		},
		mutant{
			ID: "decision-never-cached", In: "call.decide",
			What: "what a table decided is not remembered",
			Old:  "	remembered.Set(", New: "	func([]byte, cache.Value) {}(",
			Run: "TestCostlyDecisionsAreRemembered",
		},
		mutant{
			ID: "decision-status", In: "call.cacheStatus",
			What: "an answer from the cache says that it is not",
			Old:  "return cacheHit", New: "return cacheMiss",
			Run: "TestCostlyDecisionsAreRemembered",
		},

		// The answer cache.
		mutant{
			ID: "question-without-endpoint-version", In: "call.question",
			What: "the answers of an endpoint outlive its edit",
			Old:  "endpoint.Version, ", New: "",
			Run: "TestAnotherEndpointIsAnotherQuestion",
		},
		mutant{
			ID: "question-without-prompt-version", In: "call.question",
			What: "the answers of an endpoint outlive an edit of its prompt",
			Old:  "endpoint.Prompt.Version, ", New: "",
			Run: "TestFieldsOfAnEndpointAreWired|TestQuestion",
		},
		mutant{
			ID: "question-without-variant", In: "call.question",
			What: "variants share their answers",
			Old:  ", variant.Key}", New: "}",
			Run: "TestQuestion",
		},
		mutant{
			ID: "question-without-lengths", In: "call.question",
			What: "texts that are cut elsewhere are the same question",
			Old:  "		h.Write(length[:])\n", New: "",
			Run: "TestQuestion",
		},
		mutant{
			ID: "half-an-answer-remembered", In: "invocation.tell",
			What: "the first MiB of a larger answer is given again as the whole",
			Old:  "answer.Bytes() > maxRemembered || ", New: "",
			Run: "TestLargeAnswerIsNotRemembered",
		},
		mutant{
			ID: "ttl-ignored", In: "invocation.tell",
			What: "an answer is given again for an hour, whatever the endpoint says",
			Old:  "now.Add(i.ttl)", New: "now.Add(i.ttl + time.Hour)",
			Run: "TestRememberedAnswerExpires",
		},
		mutant{
			ID: "leader-leaves-waiters", In: "call.endpoint",
			What: "requests that wait for an answer that failed wait for ever",
			Old:  "		defer i.lead.Abandon()\n", New: "",
			Run: "TestFailuresAreNotGivenAgain", Timeout: hang,
		},
		mutant{
			ID: "waiter-that-leaves", In: "invocation.interrupted",
			What: "a caller that leaves while it waits for another's call has no trace",
			Old:  "	i.finish(noResult, statusClientGone, string(invoke.ClientGone))\n", New: "",
			Run: "TestWaiterThatLeaves",
		},

		// An endpoint's policy.
		mutant{
			ID: "idle-timeout", In: "policyOf",
			What: "an endpoint's idle timeout has no effect",
			Old:  "how.Timeout.Idle", New: "how.Timeout.Total",
			Run: "TestIdleTimeoutIsPassedOn",
		},
		mutant{
			ID: "idle-timeout-by-reflection", In: "policyOf",
			What: "an endpoint's idle timeout is not part of the call",
			Old:  "		Idle:        how.Timeout.Idle,\n", New: "",
			Run: "TestFieldsOfAnEndpointAreWired",
		},
		mutant{
			ID: "on-codes", In: "policyOf",
			What: "an endpoint's on_codes has no effect",
			Old:  "		OnCodes:     how.Retry.OnCodes,\n", New: "",
			Run: "TestOnCodesArePassedOn",
		},
		mutant{
			ID: "on-codes-by-reflection", In: "policyOf",
			What: "an endpoint's on_codes is not part of the call",
			Old:  "		OnCodes:     how.Retry.OnCodes,\n", New: "",
			Run: "TestFieldsOfAnEndpointAreWired",
		},
		mutant{
			ID: "hedge", In: "policyOf",
			What: "an endpoint's hedge has no effect",
			Old:  "		Hedge:       how.HedgeAfter,\n", New: "",
			Run: "TestFieldsOfAnEndpointAreWired",
		},
		mutant{
			ID: "weights", In: "Workspace.makeTargets",
			What: "an endpoint's weights have no effect",
			Old:  "targets[i].Weight = how.Weights[i]", New: "_ = i",
			Run: "TestFieldsOfAnEndpointAreWired",
		},
		mutant{
			ID: "extra", In: "Workspace.makeTargets",
			What: "raw parameters don't reach the provider",
			Old:  ", Extra: t.Extra", New: "",
			Run: "TestFieldsOfAnEndpointAreWired",
		},

		// Requests.
		mutant{
			ID: "panic-logged", In: "Gateway.Serve",
			What: "what a request panicked with, callers' data too, is logged",
			Old:  "		g.logPanic(to, problem)\n", New: "		g.logPanic(to, problem)\n		a.logger.Error(\"it said\", zap.Any(\"panic\", problem))\n",
			Run: "TestPanicIsAnError",
		},
		mutant{
			ID: "panic-counted", In: "Gateway.Serve",
			What: "a request that panicked counts as one that was answered well",
			Old:  "			info.code = wire.Internal.Name\n", New: "",
			Run: "TestPanicIsAnError",
		},
		mutant{
			ID: "body-before-key", In: "Gateway.answer",
			What: "a request without a valid key has its body read",
			Old:  "	if key == nil {\n", New: "	_, _ = r.Body.Read(make([]byte, 1))\n	if key == nil {\n",
			Run: "TestBodyIsLeftUnreadWithoutAKey", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "body-before-token", In: "Gateway.answer",
			What: "a request without a key has its body read",
			Old:  "	token, sent, ok :=", New: "	_, _ = r.Body.Read(make([]byte, 1))\n	token, sent, ok :=",
			Run: "TestBodyIsLeftUnreadWithoutAKey", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "bind-error-param", In: "call.bind",
			What: "an error of the context does not name the field",
			Old:  `"context."+refused.Field`, New: `"context"`,
			Run: "TestBindErrorNamesTheField",
		},
		mutant{
			ID: "max-body-size", In: "route.bodyLimit",
			What: "max_body_size has no effect",
			Old:  "limit := w.MaxBodySize", New: "limit := int64(64 << 20)",
			Run: "TestBadRequests",
		},
		mutant{
			ID: "body-timeout", In: "Gateway.answer",
			What: "body_timeout has no effect",
			Old:  "c.workspace.BodyTimeout", New: "maxBodyTimeout",
			Run: "DrippingBody", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "unread-body", In: "Gateway.answer",
			What: "a caller without a key holds its connection for a minute",
			Old:  "outcome{wire.Unauthorized(sent), unread}", New: "refused(wire.Unauthorized(sent))",
			Run: "RefusedBeforeTheBody", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "expected-body", In: "skipSmallBody",
			What: "a caller that waits for 100 waits for nothing",
			Old:  ` || r.Header["Expect"] != nil`, New: "",
			Run: "BodyIsLeftUnread|RefusedBeforeTheBody", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "lingering", In: "route.writeLastError",
			What: "a refused caller holds its connection for a minute",
			Old:  "	linger(w)\n", New: "",
			Run: "RefusedBeforeTheBody", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "write-deadline", In: "call.deliver",
			What: "a reader that stalls holds an answer for as long as it likes",
			Old:  "err := wire.WriteBody(c.w, body, now)", New: "_, err := c.w.Write(body)",
			Run: "WholeAnswersHaveAWriteDeadline",
		},
		mutant{
			ID: "write-deadline-of-a-replay", In: "invocation.remembered",
			What: "a reader of a remembered stream may take half a minute for each piece",
			Old:  "stream.Limit(answer.Bytes()+len(i.beside.member), len(answer.Pieces))", New: "_ = stream",
			Run: "WholeAnswersHaveAWriteDeadline",
		},
		mutant{
			ID: "stalled-leader", In: "invocation.stream",
			What: "requests of the same question wait as long as the first caller stalls",
			Old:  "		i.lead.Writing()\n", New: "",
			Run: "StalledLeader",
		},
		mutant{
			ID: "room-for-large-answers", In: "call.takeRoom",
			What: "slow readers of large answers fill the memory",
			Old:  "int64(size), 0, maxLargeAnswers/2, maxLargeAnswers)", New: "int64(size), 0, 4*maxLargeAnswers, 8*maxLargeAnswers)",
			Run: "LargeAnswersTakeTurns",
		},
		mutant{
			ID: "room-given-back", In: "call.release",
			What: "large answers are refused for good once there were many",
			Old:  "	c.keepRoom(0)\n", New: "",
			Run: "LargeAnswersTakeTurns",
		},
		mutant{
			ID: "max-answer-size", In: "call.makeRoom",
			What: "max_answer_size has no effect",
			Old:  "c.workspace.MaxAnswerSize", New: "int64(maxMaxAnswerSize)",
			Run: "AnswerSizeIsBounded",
		},
		mutant{
			ID: "bodies-hold-nothing", In: "Gateway.answer",
			What: "what large bodies take is not counted",
			Old:  "c.workspace.BodyTimeout, to.copies(), c.reserve)", New: "c.workspace.BodyTimeout, 0, nil)",
			Run: "LargeRequestsTakeTurns",
		},
		mutant{
			ID: "calls-hold-nothing", In: "call.holdCall",
			What: "what calls with large messages take is not counted",
			Old:  "size <= freeRequest", New: "size > 0",
			Run: "LargeRequests",
		},
		mutant{
			ID: "body-held-by-call", In: "call.holdCall",
			What: "a call holds its request's body until its provider answers",
			Old:  "c.holdAll(size)", New: "c.hold(size)",
			Run: "LargeRequestsTakeTurns",
		},
		mutant{
			ID: "variables-of-another-prompt", In: "call.bindVariables",
			What: "a prompt is rendered with the variables of the one before",
			Old:  "c.values.BoundTo(p.Variables())", New: "len(c.picked) > 1",
			Run: "TestPrompts|AnswerSizeIsBounded",
		},
		mutant{
			ID: "failed-stream-ends-well", In: "Gateway.Serve",
			What: "a stream that broke off ends like a complete one",
			Old:  "		panic(http.ErrAbortHandler)\n", New: "",
			Run: "TestCutStreamIsNotPresentedAsComplete",
		},
		mutant{
			ID: "too-large-a-prompt", In: "call.choose",
			What: "a prompt that is too large goes to the model without its messages",
			Old:  "if unrendered != nil {", New: "if unrendered != nil && false {",
			Run: "TestTooLargeAPrompt", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "former-key-of-ids", In: "Workspace.verifyID",
			What: "trace ids made before the store was open are unknown",
			Old:  "if !ok && ids.former != nil", New: "if false",
			Run: "TestFormerKeysStayValid", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "raw-mistakes-in-the-log", In: "placeFields",
			What: "the log shows control characters of definitions as they are",
			Old:  "visible.Line(pos.File)", New: "pos.File",
			Run: "TestLogsEscapeSources", Tests: []string{"caddymodule"},
		},

		// Keys.
		mutant{
			ID: "expired-key", In: "principal.validAt",
			What: "an expired key stays valid",
			Old:  "(p.notAfter.IsZero() || !now.After(p.notAfter))", New: "true",
			Run: "TestKeysFileIsFollowed", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "revoked-key", In: "principal.validAt",
			What: "a revoked key stays valid",
			Old:  "!p.revoked && ", New: "",
			Run: "TestKeyringStarts",
		},
		mutant{
			ID: "keys-not-swapped", In: "keyring.update",
			What: "a revoked key stays valid although the file was read",
			Old:  "	k.swap()\n", New: "",
			Run: "TestKeyringEdits",
		},
		mutant{
			ID: "keys-all-refused", In: "keyring.update",
			What: "a file of which nothing can be used takes the last keys away",
			Old:  "held.usable(now) == 0", New: "false",
			Run: "TestListWithoutAUsableKey",
		},
		mutant{
			ID: "keys-revoked-in-vain", In: "keyring.kept",
			What: "a revoked key stays valid where its file has no other",
			Old:  "key.revoked || ended[key.digest]", New: "false",
			Run: "TestListWithoutAUsableKey",
		},
		mutant{
			ID: "key-of-two-workspaces", In: "keyring.rival",
			What: "a key that another workspace has can be taken",
			Old:  "other == w || !claimed", New: "other == w || has || !claimed",
			Run: "TestKeyringEdits",
		},
		mutant{
			ID: "key-that-two-files-list", In: "keyring.rival",
			What: "a key that two files list goes to the workspace that edits its file next",
			Old:  "ours && !has", New: "ours || !has",
			Run: "TestKeyThatTwoFilesList",
		},
		mutant{
			ID: "keys-forgotten-over-a-reload", In: "Workspace.rememberKeys",
			What: "a reload of Caddy takes a key from the workspace that has it",
			Old:  "	w.Memory.keys.Store(last)\n", New: "",
			Run: "TestKeyOfAnotherWorkspace", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "refused-keys-are-valid", In: "Workspace.keysTaken",
			What: "no metric shows that keys are refused",
			Old:  "	if len(problems) > 0 {\n", New: "	if len(problems) < 0 {\n",
			Run: "TestKeyOfAnotherWorkspace", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "keys-file-compared", In: "keysFile.read",
			What: "a change of the keys file is not noticed",
			Old:  "sum == f.seen", New: "sum != [sha256.Size]byte{}",
			Run: "TestKeysFileIsComparedByItsContent",
		},

		mutant{
			ID: "secret-as-a-key", In: "call.nameUnknown",
			What: "a secret that is posted as a key goes to a header and to the log",
			Old:  "c.workspace.redactor.String(key) != key", New: `key == ""`,
			Run: "TestSecretsPostedAsKeys",
		},

		// Idempotency.
		mutant{
			ID: "reply-of-another-request", In: "call.replay",
			What: "a kept reply is given to a request of the same key that asks something else",
			Old:  "kept.Digest != c.reply.Digest", New: "false",
			Run: "TestMetricsOfAKeyAreStoredOnce",
		},
		mutant{
			ID: "keep-503", In: "call.keepFailure",
			What: "a request that no target took has its failure as the answer for ever",
			Old:  "http.StatusServiceUnavailable", New: "http.StatusTeapot",
			Run: "TestEndpointIsAskedOnceForAKey",
		},
		mutant{
			ID: "digest-without-query", In: "call.digest",
			What: "requests that differ in their query are the same",
			Old:  ", c.r.URL.RawQuery}", New: "}",
			Run: "TestIdempotencyKeysOfMetrics",
		},

		// Records.
		mutant{
			ID: "no-start", In: "call.endpoint",
			What: "a crash leaves no trace of the calls under way",
			Old:  "		c.workspace.Store.Recorder.Start(ctx, record)\n", New: "		_ = ctx\n",
			Run: "TestStartNamesWhomItAsks", Tests: []string{"caddymodule"},
		},
		mutant{
			ID: "request-unredacted", In: "call.newCallRecord",
			What: "secrets in an endpoint's request are stored",
			Old:  "	c.workspace.redactRequest(record)\n", New: "",
			Run: "TestSecretsAreNotStored",
		},
		mutant{
			ID: "answer-unredacted", In: "invocation.finish",
			What: "secrets in an answer are stored",
			Old:  "	i.workspace.redactAnswer(record)\n", New: "",
			Run: "TestSecretsAreNotStored",
		},
		mutant{
			ID: "report-unredacted", In: "call.storeReport",
			What: "secrets in a report are stored",
			Old:  "		c.workspace.redactReport(stored)\n", New: "",
			Run: "TestSecretsAreNotStored",
		},
		mutant{
			ID: "log-none", In: "invocation.finish",
			What: "log: none is recorded all the same",
			Old:  "if i.policy == definition.LogNone {", New: "if false {",
			Run: "TestCallersLowerTheLog",
		},
		mutant{
			ID: "log-raised", In: "call.logs",
			What: "a caller can raise what is recorded",
			Old:  "policy = min(policy, c.logCeiling)", New: "policy = c.logCeiling",
			Run: "TestCallersLowerTheLog",
		},
		mutant{
			ID: "log-of-reports", In: "call.report",
			What: "the caller's ceiling does not hold for llm_response",
			Old:  "		record.LLMResponse = nil\n", New: "",
			Run: "TestCallersLowerTheLog",
		},
		mutant{
			ID: "kind-of-path", In: "call.traceOfReport",
			What: "the path of prompts takes traces of other kinds",
			Old:  "c.route.kind == 0 || c.route.kind == kind", New: "true",
			Run: "TestMetrics",
		},
		mutant{
			ID: "forged-decision", In: "call.decisionOfReport",
			What: "a report on a decision that the workspace did not make is stored",
			Old:  "!ok || !c.workspace.verifyDecision(id)", New: "!ok",
			Run: "TestMetricsOfDecisions",
		},
	)
	add("internal/command",
		mutant{
			ID: "fmt-outside", In: "yamlFiles",
			What: "fmt lays out what a link out of the folder leads to",
			Old:  "err := checkInside(path, name); err != nil", New: "err := checkInside(path, name); false && err != nil",
			Run: "TestCommandsShowNothingFromOutside",
		},
	)
}
