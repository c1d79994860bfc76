package main

// Members of requests that are dropped without a word.
func init() {
	add("internal/gateway",
		mutant{
			ID: "fields-unnamed", In: "call.nameIgnored",
			What: "members without effect are not named",
			Old:  "len(paths) > 0", New: "false",
			Run: "TestNoFieldIsDropped",
		},
		mutant{
			ID: "fields-lost", In: "setParameter",
			What: "an accepted parameter does not reach the provider",
			Old:  "to.TopK = from.TopK", New: "to.TopK = nil",
			Run: "TestNoFieldIsDropped",
		},
		mutant{
			ID: "fields-inside-text", In: "call.checkBrought",
			What: "a refused text is named by a path into it",
			Old:  `strings.HasSuffix(where, "]")`, New: "true",
			Run: "TestNoFieldIsDropped",
		},
	)
	add("internal/dialect/chat",
		mutant{
			ID: "fields-unknown-dropped", In: "refuse",
			What: "unknown members of a chat are dropped",
			Old:  `openai.Unknown("", name)`, New: "nil",
			Tests: []string{"internal/gateway"}, Run: "TestNoFieldIsDropped",
		},
	)
	add("internal/dialect/openai",
		mutant{
			ID: "members-unnamed", In: "Members.Read",
			What: "members of a request without effect are not named",
			Old:  "c.Ignored = append(c.Ignored, m.Path)", New: "",
			Tests: []string{"internal/gateway"}, Run: "TestNoFieldIsDropped",
		},
		mutant{
			ID: "members-dotted", In: "Members.Read",
			What: "a member whose name is a path is taken for the one at that path",
			Old:  "bytes.IndexByte(key, '.')", New: "bytes.IndexByte(key, '!')",
			Tests: []string{"internal/dialect/messages", "internal/dialect/responses"},
		},
		mutant{
			ID: "members-fixed", In: "Member.isOnly",
			What: "a member that must have one value may have any",
			Old:  "Text(v) == m.Only", New: "true",
			Tests: []string{"internal/dialect/responses"},
		},
		mutant{
			ID: "fields-of-schema-dropped", In: "schemaFormat",
			What: "an unknown member beside a schema is dropped",
			Old:  "err = at.unknown(key)", New: "err = nil",
			Tests: []string{"internal/gateway"}, Run: "TestNoFieldIsDropped",
		},
	)
}
