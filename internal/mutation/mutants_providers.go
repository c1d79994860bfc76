package main

func init() {
	add("providers/openai",
		mutant{
			ID: "any-choice", In: "readPiece",
			What: "a choice that was not asked for is read",
			Old:  `choice.GetInt("index") == 0`, New: "true",
			Run: "Complete",
		},
		mutant{
			ID: "effort-to-older-models", In: "officialQuirks",
			What: "OpenAI's models that do not reason are sent an effort",
			Old:  ", NoEffort: older", New: "",
			Run: "OpenAIItself",
		},
		mutant{
			ID: "unknown-reason", In: "finishReason",
			What: "an unknown finish reason is an answer's",
			Old:  `return "", k.Invalid("an answer that ended with the unknown finish_reason", strconv.Quote(k.Redact(string(word))))`,
			New:  "return providers.FinishReason(word), nil",
			Run:  "Contract",
		},
		mutant{
			ID: "unknown-part", In: "readParts",
			What: "a part of an unknown type is passed over",
			Old:  `p.err = k.Invalid("a part of the content has the unknown type", strconv.Quote(k.Redact(kind)))`, New: "",
			Run: "NoCut",
		},
		mutant{
			ID: "parts-left-away", In: "Client.checkMessages",
			What: "a part that a service does not take is left away",
			Old:  `part != ""`, New: "false",
			Run: "PartsThatAServiceLacks",
		},
		mutant{
			ID: "unsigned-thoughts", In: "detail.returns",
			What: "a thought of Claude's goes back without its signature",
			Old:  `return format != "" && format != `, New: `return format != `,
			Run: "TestThoughts",
		},
		mutant{
			ID: "foreign-ids", In: "Quirks.appendID",
			What: "a service gets ids of tool calls that it does not take",
			Old:  "size = shortID", New: "size += 0",
			Run: "TestParts$",
		},
		mutant{
			ID: "unknown-content", In: "readChoice",
			What: "content that is neither text nor a list is an empty answer",
			Old:  `p.err = k.Invalid("the content is neither text nor a list of parts")`, New: "",
			Run: "NoCut",
		},
	)
	add("providers/anthropic",
		mutant{
			ID: "no-base-url", In: "New",
			What: "a client without a base URL has none",
			Old:  "config.Upstream.BaseURL == nil", New: "false",
			Run: "WhereACallGoes",
		},
		mutant{
			ID: "second-message", In: "stream.take",
			What: "a second message in a stream is read on",
			Old:  "if s.started {", New: "if false {",
			Run: "NoCut",
		},
	)
	add("providers/gemini",
		mutant{
			ID: "no-base-url", In: "New",
			What: "a client without a base URL has none",
			Old:  "config.Upstream.BaseURL == nil", New: "false",
			Run: "WhereACallGoes",
		},
		mutant{
			ID: "wrapped-end", In: "stream.end",
			What: "an error that holds io.EOF is the end in good order",
			Old:  "err != io.EOF", New: "!errors.Is(err, io.EOF)",
			Run: "AWrappedEndIsACut",
		},
		mutant{
			ID: "unknown-reason", In: "stream.fault",
			What: "an unknown finish reason after text is an answer's",
			Old:  `case reason == "":`, New: "case false:",
			Run: "NoCut",
		},
		mutant{
			ID: "open-call", In: "functionCalls.fault",
			What: "a function call that was to go on is whole",
			Old:  "if c.open {", New: "if false {",
			Run: "FunctionCallsInPieces",
		},
		mutant{
			ID: "unsigned-calls", In: "writer.call",
			What: "a history whose signatures were lost is refused by Gemini 3",
			Old:  "w.generation >= 3", New: "false",
			Run: "Contents",
		},
		mutant{
			ID: "signature-of-nothing", In: "writer.turn",
			What: "the signature with which a stream ended does not go back",
			Old:  "	w.sign()\n", New: "",
			Run: "Contents",
		},
		mutant{
			ID: "results-by-themselves", In: "writer.contents",
			What: "results of tools share a turn with what the user says",
			Old:  "messages, from, to, w.result); err", New: "messages, from, from, w.result); err",
			Run: "Contents",
		},
	)
	add("providers/bedrock",
		mutant{
			ID: "unknown-reason", In: "finishReason",
			What: "an unknown stop reason is an answer's",
			Old:  `return "", k.Invalid("an answer that ended with the unknown stop reason", strconv.Quote(k.Redact(string(stop))))`,
			New:  "return providers.FinishReason(strconv.Quote(string(stop))), nil",
			Run:  "Contract",
		},
	)
	add("providers/upstream",
		mutant{
			ID: "half-dropped", In: "halves.rest",
			What: "half of a character at the end of an answer is lost without a trace",
			Old:  "return replacement", New: `return ""`,
			Run: "Halves",
		},
		mutant{
			ID: "bad-escapes", In: "soundEscapes",
			What: "what is no escape of JSON's is text",
			Old:  "return nil, errEscape", New: "i += 2; continue",
			Run: "BadEscapes",
		},
		mutant{
			ID: "key-of-any-text", In: "CheckKey",
			What: "what no header can carry replaces a key",
			Old:  "!ValidHeaderValue(key)", New: "false",
			Tests: []string{"providers/openai"}, Run: "Contract",
		},
		mutant{
			ID: "key-of-the-call", In: "Service.Begin",
			What: "the log may show the key that was sent",
			Old:  "return Call{Provider: s.Name, Secrets: [2]string{secret}}, nil", New: "return Call{Provider: s.Name, Secrets: [2]string{secret + \"?\"}}, nil",
			Tests: []string{"providers/openai"}, Run: "DuringACall",
		},
		mutant{
			ID: "last-step", In: "Lookahead.Last",
			What: "a whole answer is read on",
			Old:  "l.end = io.EOF", New: "",
			Tests: []string{"providers/anthropic"}, Run: "Contract",
		},
		mutant{
			ID: "empty-answer", In: "Call.Cut",
			What: "an empty answer counts as one that was cut",
			Old:  "if err = nil; empty {", New: "if err = nil; false {",
			Tests: []string{"providers/openai"}, Run: "NoCut",
		},
	)
	add("providers/httpmodule",
		mutant{
			ID: "key-read-once", In: "Connection.Secret",
			What: "a key file is read once",
			Old:  "return rotating.Value, nil", New: "value, err := rotating.Value(); return func() (string, error) { return value, err }, nil",
			Tests: []string{"providers/openai", "providers/anthropic", "providers/gemini", "providers/azure", "providers/bedrock"}, Run: "Contract",
		},
		mutant{
			ID: "key-not-required", In: "Options.Prepare",
			What: "a service that wants a key is called without one",
			Old:  `name != "" && base`, New: `name == "" && base`,
			Tests: []string{"providers/anthropic"}, Run: "TestProvision$",
		},
		mutant{
			ID: "unknown-option", In: "Unmarshal",
			What: "an option of a Caddyfile that does not exist is passed over",
			Old:  "if !known {", New: "if !known { d.RemainingArgs(); continue }; if false {",
			Tests: []string{"providers/openai"}, Run: "Caddyfile",
		},
	)
	add("secret",
		mutant{
			ID: "never-again", In: "Rotating.refresh",
			What: "a secret's file is read once",
			Old:  "time.Since(s.read) < Refresh", New: "!s.read.IsZero()",
			Run: "Rotating",
		},
	)
}
