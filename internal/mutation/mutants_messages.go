package main

func init() {
	add("internal/dialect/messages",
		mutant{
			ID: "cut-is-complete", In: "appendReason",
			What: "an answer that the token limit cut is said to be complete",
			Old:  "a.FinishReason == providers.FinishLength", New: "false",
		},
		mutant{
			ID: "refusal-is-an-answer", In: "appendReason",
			What: "a model's refusal is said to be an answer",
			Old:  "a.Refusal || ", New: "",
		},
		mutant{
			ID: "broken-without-error", In: "writer.Fail",
			What: "a broken stream has no error that libraries raise",
			Old:  "event: error", New: "event: ping",
		},
		mutant{
			ID: "broken-without-id", In: "writer.Fail",
			What: "the error of a broken stream does not name its trace",
			Old:  "told.TraceID = a.TraceID", New: "_ = a",
		},
		mutant{
			ID: "pieces-twice", In: "writer.Finish",
			What: "an answer is said again at the end of its stream",
			Old:  "w.blocks == 0", New: "true",
		},
		mutant{
			ID: "calls-unsaid", In: "writer.Finish",
			What: "calls that were not said in pieces are lost",
			Old:  "if w.calls == 0 {", New: "if false {",
		},
		mutant{
			ID: "signature-unsaid", In: "writer.thought",
			What: "a stream has no signature of a thought",
			Old:  `if opaque != "" {`, New: `if false {`,
		},
		mutant{
			ID: "redacted-unsaid", In: "writer.thought",
			What: "a stream has nothing of a thought that is not shown",
			Old:  `if opaque == "" {`, New: `if true {`,
		},
		mutant{
			ID: "late-opaque", In: "writer.callPiece",
			What: "a call's data that comes after its name is lost",
			Old:  "w.late = providers.ToolCall{", New: "_ = providers.ToolCall{",
		},
		mutant{
			ID: "late-opaque-twice", In: "writer.stop",
			What: "a call's data that came late is said after each block",
			Old:  "w.late = providers.ToolCall{}", New: "_ = late",
		},
		mutant{
			ID: "input-without-check", In: "appendInput",
			What: "a call's arguments that are no JSON break the answer",
			Old:  "json.Valid(dst[start:])", New: "json.Valid(dst[start:]) || true",
		},
		mutant{
			ID: "cached-input-twice", In: "appendUsage",
			What: "input that was in the provider's cache counts twice",
			Old:  "u.PromptTokens-u.CachedTokens", New: "u.PromptTokens-0",
		},
		mutant{
			ID: "size-of-call-data", In: "writer.Size",
			What: "an answer has less room than a call's data takes",
			Old:  `if c.Opaque != "" {`, New: "if false {",
		},
		mutant{
			ID: "empty-thought-said", In: "writer.Answer",
			What: "a thought of which nothing is known is a block",
			Old:  `t.Text != "" || t.Opaque != ""`, New: "true",
		},
		mutant{
			ID: "metadata-is-context", In: "messages.Parse",
			What: "metadata takes the place of the context",
			Old:  "if w.call.Context == nil {", New: "if w.call.Metadata != nil {",
		},
		mutant{
			ID: "effort-unnamed", In: "parser.finish",
			What: "an effort without thoughts is dropped in silence",
			Old:  `p.ignore("output_config.effort")`, New: "_ = set",
		},
		mutant{
			ID: "effort-twice", In: "parser.finish",
			What: "an effort that has no effect needs the endpoint's word",
			Old:  `p.withdraw("reasoning_effort")`, New: "_ = set",
		},
		mutant{
			ID: "budget-unnamed", In: "parser.finish",
			What: "a budget beside an effort is dropped in silence",
			Old:  "p.ignore(p.effortAt)", New: "_ = set",
		},
		mutant{
			ID: "adaptive-unnamed", In: "parser.thinking",
			What: "adaptive thinking is dropped in silence",
			Old:  `p.ignore("thinking.type")`, New: "_ = kind",
		},
		mutant{
			ID: "call-without-result", In: "turns.answered",
			What: "a call without its result is sent to the model",
			Old:  "!c.answered", New: "false",
		},
		mutant{
			ID: "result-twice", In: "parser.result",
			What: "a call has two results",
			Old:  "c.id == id && !c.answered", New: "c.id == id",
		},
		mutant{
			ID: "failure-of-a-tool", In: "parser.result",
			What: "a tool that failed is said to have succeeded",
			Old:  "result.Failed, err =", New: "_, err =",
		},
		mutant{
			ID: "text-before-result", In: "parser.user",
			What: "what the user says before a result is put behind it",
			Old:  "if others {\n\t\t\t\treturn", New: "if false {\n\t\t\t\treturn",
		},
		mutant{
			ID: "order-of-parts", In: "parser.assistant",
			What: "what the assistant thought comes after what it said",
			Old:  "slices.SortStableFunc(own, dialect.CompareParts)", New: "",
		},
		mutant{
			ID: "data-of-no-call", In: "parser.assistant",
			What: "data of a call that is not there is dropped in silence",
			Old:  `p.ignore(s.at.Member("data"))`, New: "_ = s",
		},
		mutant{
			ID: "data-without-bound", In: "parser.thought",
			What: "a message with thousands of calls' data takes seconds",
			Old:  "len(*secrets) == openai.MaxCalls", New: "false",
		},
		mutant{
			ID: "empty-thought", In: "parser.thought",
			What: "a thought of which nothing is known is dropped in silence",
			Old:  `p.ignore(at.Member(""))`, New: "_ = at",
		},
		mutant{
			ID: "path-of-a-thought", In: "parser.thought",
			What: "what is ignored of a thought is named by a path that the caller did not send",
			Old:  "p.turns.shifted = true // what", New: "// what",
		},
		mutant{
			ID: "path-of-a-result", In: "turns.add",
			What: "a turn is named by a message that the caller did not send",
			Old:  "at.message != len(t.list)", New: "false",
		},
		mutant{
			ID: "block-member-dropped", In: "parser.only",
			What: "members of blocks without effect are not named",
			Old:  "p.ignore(at.Member(name))", New: "_ = at",
		},
		mutant{
			ID: "context-cleared", In: "parser.contextManagement",
			What: "what is to be cleared of a conversation is dropped in silence",
			Old:  `openai.Text(edit.Get("keep")) != "all"`, New: "false",
		},
		mutant{
			ID: "context-unnamed", In: "parser.contextManagement",
			What: "an edit of a conversation that has no effect is not named",
			Old:  "p.ignore(name)", New: "_ = name",
		},
		mutant{
			ID: "server-tools", In: "parser.tool",
			What: "a tool that Anthropic runs is taken for the caller's",
			Old:  `openai.Text(kind) != "custom"`, New: "false",
		},
		mutant{
			ID: "tool-member-dropped", In: "parser.tool",
			What: "members of tools without effect are not named",
			Old:  "p.ignore(path + name)", New: "_ = path",
		},
		mutant{
			ID: "threads-lost", In: "appendError",
			What: "tool runners do not learn that there are no threads",
			Old:  "code = unthreaded", New: "_ = unthreaded",
		},
		mutant{
			ID: "key-told", In: "messages.AppendError",
			What: "the error of an unknown key differs by its cause",
			Old:  "shown.Code == wire.InvalidAPIKey", New: "false",
		},
	)
	add("internal/gateway",
		mutant{
			ID: "anthropic-key-anywhere", In: "route.token",
			What: "a key in x-api-key is taken on all routes",
			Old:  "if to.keyHeader != \"\" && len(h[\"Authorization\"]) == 0 {\n\t\tif values := h[to.keyHeader]", New: "if len(h[\"Authorization\"]) == 0 {\n\t\tif values := h[\"X-Api-Key\"]",
			Run: "TestMessagesKeys",
		},
		mutant{
			ID: "anthropic-key-twice", In: "route.token",
			What: "two keys are taken for one",
			Old:  "len(values) == 1 && ", New: "",
			Run: "TestMessagesKeys",
		},
		mutant{
			ID: "anthropic-error-without-id", In: "route.writeErrorOnly",
			What: "an error's body does not repeat the id of its header",
			Old:  "told.RequestID = id", New: "_ = id",
			Run: "TestMessagesKeys",
		},
		mutant{
			ID: "anthropic-models", In: "route.spoken",
			What: "models are Anthropic's for every caller",
			Old:  " && len(h[headerAnthropic]) > 0", New: "",
			Run: "TestModels",
		},
		mutant{
			ID: "count-unasked", In: "call.admitted",
			What: "tokens are counted of what the endpoint does not accept",
			Old:  "return endpoint, c.checkBrought(endpoint, request)", New: "return endpoint, nil",
			Run: "TestCountTokens",
		},
		mutant{
			ID: "count-unsaid", In: "call.countTokens",
			What: "a count of tokens does not say that it is an estimate",
			Old:  "h[wire.HeaderUsage] = estimated", New: "_ = estimated",
			Run: "TestCountTokens",
		},
	)
	add("internal/invoke",
		mutant{
			ID: "tools-cost-nothing", In: "eachText",
			What: "tools are not counted among the tokens of a request",
			Old:  "		see(tools[i].Description)\n", New: "",
			Run: "TestCountTokens", Tests: []string{"internal/gateway"},
		},
	)
}
