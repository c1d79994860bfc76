package main

func init() {
	add("internal/adminapi",
		mutant{
			ID: "finish-reason-not-asked-for", In: "traceFilter",
			What: "a list is not filtered by why models stopped",
			Old:  `FinishReason: values.Get("finish_reason"), `, New: "",
			Tests: []string{"caddymodule"}, Run: "TestAdminTraces",
		},
	)
	add("internal/gateway",
		mutant{
			ID: "remember-cut-answers", In: "invocation.tell",
			What: "an answer that a limit of tokens cut is given to later requests",
			Old:  "if result.FinishReason.Whole() {", New: "if true {",
			Run: "TestAnswersSayHowTheyEnded",
		},
		mutant{
			ID: "queue-to-be-cut", In: "invocation.tell",
			What: "each request that waits for an answer that was cut asks the model itself",
			Old:  "if i.lead == nil {", New: "if i.lead == nil || !result.FinishReason.Whole() {",
			Run: "TestCutAnswersAreShared",
		},
		mutant{
			ID: "cached-answer-without-its-end", In: "invocation.remembered",
			What: "an answer from the cache does not say how it ended",
			Old:  "	i.complete(&invoke.Result{Result: answer.Result, Estimated: answer.Estimated})\n", New: "",
			Run: "TestAnswersSayHowTheyEnded",
		},
		mutant{
			ID: "status-before-the-end", In: "call.newRecord",
			What: "a call that is under way has the status of an answer",
			Old:  "record.APIKey = c.key.name", New: "record.APIKey = c.key.name\n\trecord.Status = http.StatusOK",
			Run: "TestCallUnderWayHasNoStatus",
		},
		mutant{
			ID: "trace-without-its-prompt", In: "call.newCallRecord",
			What: "an endpoint's trace names its own version as that of its prompt",
			Old:  "= endpoint.Prompt.Key, endpoint.Prompt.Version", New: "= endpoint.Prompt.Key, endpoint.Version",
			Run: "TestAdminTrace$", Tests: []string{"caddymodule"},
		},
	)
}
