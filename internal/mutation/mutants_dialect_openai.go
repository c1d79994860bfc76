package main

// OpenAI's shapes, and its chat API.
func init() {
	add("internal/dialect/openai",
		mutant{
			ID: "unanswered-call", In: "Messages",
			What: "a tool call without a result is passed on to providers, which refuse it",
			Old:  "i+1 == len(list) ||", New: "",
			Run: "TestRefusals",
		},
		mutant{
			ID: "answered-twice", In: "messageParser.answer",
			What: "a tool call takes two results",
			Old:  "if p.answered[i]", New: "if false",
			Run: "TestRefusals",
		},
		mutant{
			ID: "unknown-part-member", In: "messageParser.beside",
			What: "an unknown member of a part is dropped in silence",
			Old:  "err = at.unknown(key)", New: "_ = key",
			Run: "TestRefusals",
		},
		mutant{
			ID: "thought-of-a-call", In: "thoughts",
			What: "the data of a tool call becomes a thought",
			Old:  "hasCall(has.toolCalls, id)", New: "false",
			Run: "TestMessages$",
		},
		mutant{
			ID: "thought-order", In: "thoughts",
			What: "a thought without data takes the place of an opaque one",
			Old:  "copy(to[start+1:], to[start:])", New: "",
			Run: "TestMessages$",
		},
		mutant{
			ID: "top-logprobs-alone", In: "Parameter",
			What: "top_logprobs asks for log probabilities that logprobs does not ask for",
			Old:  `!o.Get("logprobs").GetBool()`, New: "false",
			Run: "TestRefusals",
		},
		mutant{
			ID: "several-allowed", In: "onlyAllowed",
			What: "of several allowed tools the first one is required",
			Old:  "|| len(allowed) != 1", New: "|| len(allowed) < 1",
			Run: "TestRefusals",
		},
	)
	add("internal/dialect/chat",
		mutant{
			ID: "silent-members", In: "writer.other",
			What: "a member without effect is not named",
			Old:  "w.call.Ignored = append(w.call.Ignored, m.Name)", New: "_ = w",
			Run: "TestMembersAreWhatParseDoes",
		},
		mutant{
			ID: "metadata-is-context", In: "chat.Parse",
			What: "the rules match on metadata beside a context",
			Old:  "if c.Context == nil", New: "if c.Metadata != nil",
			Run: "TestParse$",
		},
		mutant{
			ID: "usage-unasked", In: "writer.Finish",
			What: "a stream ends with a chunk of usage that its caller did not ask for",
			Old:  "if w.usage", New: "if true",
			Run: "TestGolden",
		},
		mutant{
			ID: "null-content", In: "writer.Answer",
			What: "an answer of tool calls has an empty text in place of none",
			Old:  `a.Content != "" || len(a.ToolCalls) == 0`, New: "true",
			Run: "TestGolden",
		},
	)
	add("internal/dialect/openai",
		mutant{
			ID: "size-of-thoughts", In: "ReasoningSize",
			What: "the room of an answer counts a thought once, which is in it twice",
			Old:  "2*jsontext.EscapedLen(", New: "jsontext.EscapedLen(",
			Run: "TestSizeIsABound", Tests: []string{"internal/dialect/chat"},
		},
		mutant{
			ID: "lines-in-events", In: "AppendLogprobs",
			What: "log probabilities in several lines break an event",
			Old:  "dst[i] = ' '", New: "_ = i",
			Run: "TestGolden", Tests: []string{"internal/dialect/chat"},
		},
		mutant{
			ID: "name-of-a-parameter", In: "Parameter",
			What: "an error names a parameter by bytes of the request after it",
			Old:  "name = parameterNames[i]", New: "",
			Run: "TestPathsOutliveTheRequest", Tests: []string{"internal/dialect/chat"},
		},
	)
	add("providers",
		mutant{
			ID: "base64-padding", In: "CheckBase64",
			What: "data that is cut passes for base64",
			Old:  "len(data)%4 != 0", New: "false",
			Run: "TestParseMedia|TestRefusals", Tests: []string{"internal/dialect/openai", "providers"},
		},
	)
}
