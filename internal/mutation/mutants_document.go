package main

func init() {
	add("internal/document",
		mutant{
			ID: "yaml-depth", In: "yamlReader.value",
			What: "mappings nest without end",
			Old:  "\t\tif err := r.checkDepth(depth, pos); err != nil {\n\t\t\treturn nil, err\n\t\t}\n\t\treturn r.mapping", New: "\t\treturn r.mapping",
			Run: "ParseErrors|TestUnclear",
		},
		mutant{
			ID: "alias-depth", In: "yamlReader.alias",
			What: "an alias puts a deep value deeper than values may be",
			Old:  "depth+a.size.height-1", New: "depth",
			Run: "ParseErrors",
		},
		mutant{
			ID: "alias-values", In: "yamlReader.alias",
			What: "a few lines of aliases make millions of values",
			Old:  "r.aliased.nodes > MaxAliasedNodes", New: "false",
			Run: "ParseErrors",
		},
		mutant{
			ID: "alias-text", In: "yamlReader.alias",
			What: "aliases repeat a large text without end",
			Old:  "r.aliased.bytes > MaxAliasedBytes", New: "false",
			Run: "ParseErrors",
		},
		mutant{
			ID: "anchor-twice", In: "yamlReader.node",
			What: "an anchor is given a second value",
			Old:  "dup || r.open[v.Anchor]", New: "false && dup",
			Run: "ParseErrors",
		},
		mutant{
			ID: "position-of-an-anchored-value", In: "yamlReader.position",
			What: "the position of a value with an anchor is that of the anchor",
			Old:  "n.Anchor == \"\" || missing(n)", New: "true",
			Tests: []string{"internal/document", "internal/document/format"},
			Run:   "Positions|Source",
		},
		mutant{
			ID: "plain-continued", In: "plainReader.mapping",
			What: "text in a second line is taken for a value of its own",
			Old:  "next == column", New: "next >= column",
			Run: "ParsePlain",
		},
		mutant{
			ID: "plain-duplicate", In: "plainReader.unique",
			What: "one of two members of a name is taken",
			Old:  "others[i].Key.Text == key.Text", New: "i < 0",
			Run: "ParsePlain",
		},
		mutant{
			ID: "second-document", In: "parseByLibrary",
			What: "the last of several documents is read",
			Old:  "n != nil {", New: "false {",
			Run: "ParseErrors",
		},
		mutant{
			ID: "merge-key", In: "yamlReader.key",
			What: "<< is a member like any other",
			Old:  `k.Value == "<<"`, New: "false",
			Run: "ParseErrors",
		},
		mutant{
			ID: "tag", In: "yamlReader.node",
			What: "an explicit tag is left out",
			Old:  `v.Style&yaml.TaggedStyle != 0`, New: "false",
			Run: "ParseErrors",
		},
		mutant{
			ID: "missing-space", In: "yamlReader.mapping",
			What: "{a:1} is a mapping with the member a:1",
			Old:  "missing(pair[1])", New: "false",
			Run: "TestUnclear",
		},
		mutant{
			ID: "old-line-breaks", In: "yamlReader.standIn",
			What: "U+2028 ends a line",
			Old:  "if odd {", New: "if false {",
			Run: "TestScalars",
		},
		mutant{
			ID: "stand-in-that-is-there", In: "unusedCharacters",
			What: "the character that replaces line breaks is in the file, too",
			Old:  "!used[c]", New: "true",
			Run: "TestScalars",
		},
		mutant{
			ID: "duplicates", In: "builder.addMember",
			What: "the last of two members of a name counts",
			Old:  "dup {", New: "dup && false {",
			Run: "ParseErrors|JSONErrors",
		},
		mutant{
			ID: "duplicates-without-end", In: "builder.addMember",
			What: "a member that occurs a million times is reported a million times",
			Old:  "len(n.Members) == MaxMembers", New: "len(seen) == MaxMembers",
			Run: "ParseErrors",
		},
		mutant{
			ID: "json-half-pair", In: "jsonEscape",
			What: "half a surrogate pair becomes U+FFFD",
			Old:  "!ok || r == utf8.RuneError", New: "false",
			Run: "TestJSON",
		},
		mutant{
			ID: "json-depth", In: "jsonReader.value",
			What: "JSON nests without end",
			Old:  "err := r.checkDepth(depth, n.Pos); err != nil", New: "err := error(nil); err != nil",
			Run: "TestJSON",
		},
		mutant{
			ID: "json-positions", In: "jsonReader.position",
			What: "every position counts its line from the beginning",
			Old:  "r.counted = r.at", New: "r.counted, r.characters = r.lineStart, 0",
			Run: "TestJSONOnOneLine", Timeout: hang,
		},
		mutant{
			ID: "read-bool", In: "Node.ReadBool",
			What: "what is no boolean is read as one, beside the error",
			Old:  "\treturn false, false", New: "\treturn false, true",
			Run: "Readers",
		},
		mutant{
			ID: "read-float", In: "Node.ReadFloat",
			What: "what is no number is read as one, beside the error",
			Old:  "return 0, false", New: "return 0, true",
			Run: "Readers",
		},
		mutant{
			ID: "read-word", In: "Node.ReadWord",
			What: "a word that is missing is a panic",
			Old:  "if n != nil && n.Shape == Scalar {", New: "if n != nil || n.Shape == Scalar {",
			Run: "Readers",
		},
	)
}
