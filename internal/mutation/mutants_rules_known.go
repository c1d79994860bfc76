package main

// What the tests killed when the list was made.
func init() {
	add("rules",
		mutant{
			ID: "key-without-ramp", In: "Table.appendSchedule",
			What: "a cached decision outlives a step of its ramp",
			Old:  "uint64(r.at(now))", New: "uint64(r.at(now)*0)",
			Run: "Ramp|Key",
		},
		mutant{
			ID: "missing-matches-nobody", In: "columnBuilder.wildcards",
			What: "the index finds no row for a value that is missing",
			Old:  "		if e.atom.onMissing {\n", New: "		if false {\n",
			Run: "AnalyseAgainstAllContexts|AgainstReference",
		},
		mutant{
			ID: "key-without-unit", In: "Table.finish",
			What: "callers share the share of the first",
			Old:  "			slots = append(slots, s.by)\n", New: "",
			Run: "AgainstReference|Split|Key",
		},
		mutant{
			ID: "key-without-prerequisites", In: "Table.ask",
			What: "a cached decision ignores what its prerequisites read",
			Old:  "t.reads = append(t.reads, n.reads...)", New: "_ = n",
			Run: "Prerequisite",
		},
	)
}
