package main

import "time"

// What the tests killed when the list was made.
func init() {
	add("internal/wire",
		mutant{
			ID: "two-authorizations", In: "BearerToken",
			What: "of two Authorization headers the last one counts",
			Old:  "len(values) != 1", New: "len(values) == 0",
			Run: "BearerToken",
		},
		mutant{
			ID: "shortest-token", In: "LegalToken",
			What: "a key of 16 characters is refused",
			Old:  "len(s) < MinTokenLength", New: "len(s) <= MinTokenLength",
			Run: "BearerToken",
		},
		mutant{
			ID: "key-limit", In: "Request.KeyList",
			What: "a hundred keys are refused",
			Old:  "len(elements) > most", New: "len(elements) >= most",
			Run: "KeyLimit",
		},
		mutant{
			ID: "repeated-key", In: "Request.KeyList",
			What: "a repeated key is answered twice",
			Old:  "!slices.Contains(r.keys[start:], key)", New: "!slices.Contains(r.keys[start:], key) || true",
			Run: "Prompts",
		},
		mutant{
			ID: "keys-of-two-lists", In: "Request.KeyList",
			What: "a key in both lists of a decision is answered in the first alone",
			Old:  "!slices.Contains(r.keys[start:], key)", New: "!slices.Contains(r.keys, key)",
			Run: "Decisions",
		},
		mutant{
			ID: "keys-over-two-lists", In: "Request.Decisions",
			What: "a decision may have two hundred keys",
			Old:  "n == 0 || n > MaxKeys", New: "n == 0",
			Run: "BadDecisions",
		},
		mutant{
			ID: "large-first-event", In: "EventStream.drop",
			What: "a first event that is large stays in memory as long as its stream",
			Old:  " && cap(s.batch.events) <= 2*batchSize", New: "",
			Run: "LargeEventsAreNotKept",
		},
		mutant{
			ID: "a-write-for-each-delta", In: "EventStream.add",
			What: "each delta is written alone, although others are there already",
			Old:  "!s.started || len(events) >= batchSize", New: "true",
			Run: "StreamSharesFlushes",
		},
		mutant{
			ID: "batches-without-end", In: "EventStream.add",
			What: "a whole answer is held in memory until it is flushed",
			Old:  "!s.started || len(events) >= batchSize", New: "!s.started",
			Run: "StreamWritesLargeBatches",
		},
		mutant{
			ID: "conflict-without-retry-after", In: "WriteErrorBody",
			What: "a 409 has no Retry-After",
			Old:  "case http.StatusConflict, http.StatusTooManyRequests", New: "case http.StatusTooManyRequests",
			Run: "WriteErrorGolden",
		},
		mutant{
			ID: "retry-after-rounded-down", In: "retrySeconds",
			What: "a client comes back before it may",
			Old:  "		seconds++\n", New: "",
			Run: "WriteErrorGolden",
		},
		mutant{
			ID: "reason-of-a-401", In: "Error.AppendJSON",
			What: "the body of a 401 says why a key is refused",
			Old:  "shown.Code == InvalidAPIKey", New: "false",
			Run: "WriteErrorGolden",
		},
		mutant{
			ID: "two-idempotency-keys", In: "IdempotencyKey",
			What: "of two idempotency keys one is taken",
			Old:  "case len(values) > 1:", New: "case len(values) > 2:",
			Run: "IdempotencyKey",
		},
		mutant{
			ID: "highest-score", In: "numberMember",
			What: "the highest score is refused",
			Old:  "n <= most", New: "n < most",
			Run: "MetricsRanges",
		},
		mutant{
			ID: "half-a-token", In: "economics",
			What: "a fraction of a token is accepted",
			Old:  "n != math.Trunc(n)", New: "false",
			Run: "MetricsRanges",
		},
		mutant{
			ID: "completion-tokens", In: "economics",
			What: "the completion's tokens are derived wrong",
			Old:  "e.completion = e.total - e.prompt", New: "e.completion = e.total",
			Run: "TestMetrics",
		},
		mutant{
			ID: "token-sum", In: "economics",
			What: "a wrong sum of tokens is accepted",
			Old:  "e.prompt+e.completion != e.total", New: "false",
			Run: "MetricsRanges",
		},
		mutant{
			ID: "two-names-of-a-report", In: "Request.metricsRecord",
			What: "a report may name a trace and a decision",
			Old:  "m.NamedTrace != nil && m.NamedDecision != nil", New: "false",
			Run: "MetricsRanges",
		},
		mutant{
			ID: "repeated-metadata", In: "pairsQuery",
			What: "a name that is twice in the query is taken",
			Old:  "len(texts) > 1", New: "false",
			Run: "TraceMetrics",
		},
		mutant{
			ID: "not-utf-8", In: "Request.parseValue",
			What: "a body that is not UTF-8 is read",
			Old:  "!utf8.Valid(b)", New: "false",
			Run: "BadBodies",
		},
		mutant{
			ID: "duplicate-members", In: "Request.parseValue",
			What: "a member may be there twice, and readers differ about which counts",
			Old:  "; found {", New: "; found && false {",
			Run: "BadBodies",
		},
		mutant{
			ID: "duplicates-in-lists", In: "Request.duplicate",
			What: "a member may be there twice inside a list",
			Old:  "case fastjson.TypeArray:", New: "case fastjson.TypeNull:",
			Run: "BadBodies",
		},
		mutant{
			ID: "first-coding-only", In: "Request.ReadBody",
			What: "of several Content-Encoding headers the first counts",
			Old:  `req.Header["Content-Encoding"] {`, New: `req.Header["Content-Encoding"][:min(1, len(req.Header["Content-Encoding"]))] {`,
			Run: "ReadBodyErrors",
		},
		mutant{
			ID: "body-of-the-limit", In: "Request.ReadBody",
			What: "a body of exactly the limit is refused",
			Old:  "req.ContentLength > limit", New: "req.ContentLength >= limit",
			Run: "ReadBody",
		},
		mutant{
			ID: "chunked-body", In: "Request.ReadBody",
			What: "a chunked body that is larger than the first buffer is never read",
			Old:  "			r.grow(room+more, room+claimed)\n", New: "",
			Timeout: time.Minute,
		},
		mutant{
			ID: "write-deadline-left", In: "EventStream.close",
			What: "the next request of the connection has the stream's deadline",
			Old:  "		_ = s.control.SetWriteDeadline(time.Time{})\n", New: "",
			Run: "WriteDeadline",
		},
		mutant{
			ID: "write-deadline-once", In: "EventStream.allow",
			What: "a stream ends at the deadline of its first write",
			Old:  "s.deadline.Sub(now) >= need", New: "!s.deadline.IsZero()",
			Run: "WriteDeadline",
		},
		mutant{
			ID: "write-after-a-failure", In: "EventStream.write",
			What: "writes go on after one has failed",
			Old:  "s.err != nil || len(s.batch.events) == 0", New: "len(s.batch.events) == 0",
		},
		mutant{
			ID: "heartbeat", In: "EventStream.beat",
			What: "a heartbeat follows content at once",
			Old:  "silence < heartbeatInterval", New: "false",
			Run: "Heartbeat",
		},
		mutant{
			ID: "long-integer", In: "checkNumber",
			What: "an integer too large for a float is taken",
			Old:  "exponent || i-start > 300", New: "exponent",
			Run: "BadBodies",
		},
		mutant{
			ID: "value-ceiling", In: "checkSyntax",
			What: "a hundred times as many values are read",
			Old:  "values > maxValues", New: "values > 100*maxValues",
			Run: "BadBodies",
		},
	)
}
