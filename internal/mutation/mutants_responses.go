package main

func init() {
	add("internal/dialect/responses",
		mutant{
			ID: "cut-is-complete", In: "statusOf",
			What: "an answer that the token limit cut is said to be complete",
			Old:  "a.FinishReason == providers.FinishLength || ", New: "",
		},
		mutant{
			ID: "broken-without-error", In: "writer.Fail",
			What: "a broken stream has no error that libraries raise",
			Old:  `w.event(dst, "error")`, New: `w.event(dst, "response.error")`,
		},
		mutant{
			ID: "nothing-held", In: "writer.Held",
			What: "what a stream says at its end again is not counted",
			Old:  "6*len(w.text) + ", New: "",
		},
		mutant{
			ID: "pieces-twice", In: "writer.Finish",
			What: "an answer is said again at the end of its stream",
			Old:  "w.items == 0 && w.open == nothing", New: "w.items == 0",
		},
		mutant{
			ID: "calls-unsaid", In: "writer.Finish",
			What: "calls that were not said in pieces are lost",
			Old:  "if w.calls == 0 {", New: "if false {",
		},
		mutant{
			ID: "no-item", In: "writer.Finish",
			What: "an answer without a word has no message",
			Old:  "if !w.spoke {", New: "if false {",
		},
		mutant{
			ID: "late-refusal", In: "writer.Finish",
			What: "a refusal that is known at the end is said to be an answer",
			Old:  "w.open == message && a.Refusal", New: "false",
		},
		mutant{
			ID: "empty-arguments", In: "writer.endCall",
			What: "a call without arguments has none that can be parsed",
			Old:  "if len(w.text) == 0 {", New: "if false {",
		},
		mutant{
			ID: "late-opaque", In: "writer.callPiece",
			What: "a call's data that comes after its name is lost",
			Old:  "w.call.Opaque = strings.Clone(p.Opaque)", New: "_ = p",
		},
		mutant{
			ID: "lines-in-events", In: "appendList",
			What: "log probabilities in several lines break their event",
			Old:  "openai.AppendLogprobs(dst, list[1:len(list)-1])", New: "append(openai.AppendLogprobs(dst, nil), list[1:len(list)-1]...)",
		},
		mutant{
			ID: "large-echo", In: "appendEcho",
			What: "an answer repeats members of any size",
			Old:  "n == 0 || n > maxEcho", New: "n == 0",
		},
		mutant{
			ID: "metadata-is-context", In: "responses.Parse",
			What: "metadata takes the place of the context",
			Old:  "if of.call.Context == nil {", New: "if of.call.Metadata != nil {",
		},
		mutant{
			ID: "call-without-output", In: "turns.answered",
			What: "a call without its output is sent to the model",
			Old:  "!c.answered", New: "false",
		},
		mutant{
			ID: "output-twice", In: "parser.output",
			What: "a call has two outputs",
			Old:  "c.id == id && !c.answered", New: "c.id == id",
		},
		mutant{
			ID: "order-of-parts", In: "turns.close",
			What: "what the assistant thought comes after what it said",
			Old:  "slices.SortStableFunc(own, dialect.CompareParts)", New: "",
		},
		mutant{
			ID: "empty-texts", In: "turns.close",
			What: "a text without a word goes to a provider beside other parts",
			Old:  "if len(own) > 1 {", New: "if false {",
		},
		mutant{
			ID: "two-answers", In: "turns.answer",
			What: "two answers are joined to one",
			Old:  "t.spoke && len(t.calls) == 0", New: "false",
		},
		mutant{
			ID: "data-after-call", In: "parser.secret",
			What: "a call's data that comes after the call is lost",
			Old:  "if t.open {", New: "if false {",
		},
		mutant{
			ID: "data-of-no-call", In: "parser.input",
			What: "data of a call that is not there is dropped in silence",
			Old:  `p.ignore(place{item: s.item}.Member("encrypted_content"))`, New: "_ = s",
		},
		mutant{
			ID: "empty-thought", In: "parser.thought",
			What: "a thought of which nothing is known is dropped in silence",
			Old:  `p.ignore(at.Member(""))`, New: "_ = at",
		},
		mutant{
			ID: "path-of-a-thought", In: "parser.thought",
			What: "what is ignored of a thought is named by a path that the caller did not send",
			Old:  "t.shifted = true", New: "_ = t.shifted",
		},
		mutant{
			ID: "held-file", In: "notHeld",
			What: "the error of a file that OpenAI holds names no member",
			Old:  `at.Member("file_id")`, New: `at.Member("")`,
		},
	)
	add("internal/gateway",
		mutant{
			ID: "kept-streams-uncounted", In: "invocation.keepHeld",
			What: "what a stream keeps for its end takes no room",
			Old:  "i.full = i.growRoom(held)", New: "_ = held",
			Run: "StreamsThatKeep",
		},
		mutant{
			ID: "kept-streams-unended", In: "invocation.stream",
			What: "a stream goes on without room for what it keeps",
			Old:  "if err == nil && i.full != nil {", New: "if false {",
			Run: "StreamsThatKeep",
		},
		mutant{
			ID: "remembered-streams-uncounted", In: "invocation.newStream",
			What: "a remembered stream that is kept takes no room",
			Old:  "size += repeats * known", New: "_ = known",
			Run: "StreamsThatKeep",
		},
		mutant{
			ID: "role-of-instructions", In: "call.checkBrought",
			What: "the error of instructions names a member that they don't have",
			Old:  `!strings.HasSuffix(where, "]")`, New: "false",
			Run: "TestResponses",
		},
	)
}
