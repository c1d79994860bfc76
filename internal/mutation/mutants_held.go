package main

func init() {
	add("providers",
		mutant{
			ID: "held-without-a-ceiling", In: "Held.Take",
			What: "answers of upstreams hold as much memory as they like",
			Old:  "all > maxHeld && all > own", New: "all < 0",
			Run: "Held|Alone",
		},
		mutant{
			ID: "held-after-release", In: "Held.Take",
			What: "an answer that is closed takes memory, for ever",
			Old:  "if h.released {", New: "if false {",
			Run: "Held",
		},
		mutant{
			ID: "alone-is-refused", In: "Held.Take",
			What: "a large answer is refused although there is no other",
			Old:  " && all > own", New: "",
			Run: "Alone",
		},
	)
	add("providers/upstream",
		mutant{
			ID: "body-released", In: "limitedBody.Close",
			What: "what an answer held is never given back",
			Old:  "b.held.Release()", New: "",
			Run: "Held",
		},
		mutant{
			ID: "whole-held", In: "readWhole",
			What: "the pieces of a whole answer don't count",
			Old:  "Hold(body, next)", New: "error(nil)",
			Run: "Held|TwiceTheBody",
		},
		mutant{
			ID: "joined-given-back", In: "readWhole",
			What: "the pieces count although they are joined",
			Old:  "Hold(body, -counted)", New: "error(nil)",
			Run: "TwiceTheBody",
		},
		mutant{
			ID: "line-held", In: "EventReader.fill",
			What: "a line of a stream does not count",
			Old:  "Hold(e.r, size-len(e.buf))", New: "error(nil)",
			Run: "AreHeld",
		},
		mutant{
			ID: "event-held", In: "EventReader.grow",
			What: "the data of an event does not count",
			Old:  "Hold(e.r, size-cap(*b))", New: "error(nil)",
			Run: "AreHeld",
		},
		mutant{
			ID: "values-held", In: "Body.Parse",
			What: "what a parser makes of an event does not count",
			Old:  "b.holdParsed(data)", New: "error(nil)",
			Run: "AreHeld|ValuesAreBounded",
		},
		mutant{
			ID: "values-of-a-whole-answer", In: "Body.Whole",
			What: "what a parser makes of a whole answer does not count",
			Old:  "b.holdParsed(body)", New: "nil",
			Run: "ValuesAreBounded",
		},
		mutant{
			ID: "no-room-is-no-json", In: "EventAnswer.Parse",
			What: "an event that there is no memory for passes for one that is not JSON",
			Old:  "errors.Is(err, providers.ErrNoRoom)", New: "false",
			Tests: []string{"providers/openai", "providers/anthropic"}, Run: "WithoutMemory",
		},
	)
	add("providers/gemini",
		mutant{
			ID: "tail-held", In: "tailReader.Hold",
			What: "what is held of Gemini's answers does not count",
			Old:  "upstream.Hold(t.ReadCloser, bytes)", New: "upstream.Hold(nil, bytes)",
			Run: "WithoutMemory",
		},
	)
	add("providers/bedrock",
		mutant{
			ID: "message-held", In: "messageReader.need",
			What: "what is held of Bedrock's messages does not count",
			Old:  "upstream.Hold(m.r, size-len(buf))", New: "error(nil)",
			Run: "WithoutMemory",
		},
		mutant{
			ID: "no-room-is-no-json", In: "stream.take",
			What: "an event that there is no memory for passes for one that is not JSON",
			Old:  "errors.Is(err, providers.ErrNoRoom)", New: "false",
			Run: "WithoutMemory",
		},
	)
	add("internal/invoke",
		mutant{
			ID: "text-held", In: "Target.readWhole",
			What: "the text of a whole answer that comes in pieces does not count",
			Old:  "held.Take(more)", New: "nil",
			Run: "TextOfAWholeAnswerIsHeld",
		},
		mutant{
			ID: "no-room-is-invalid", In: "Classify",
			What: "the lack of memory is put down to the provider",
			Old:  "return NoRoom", New: "return InvalidAnswer",
			Run: "TestEveryClass|TextOfAWhole",
		},
	)
}
