package main

func init() {
	add("rules",
		mutant{
			ID: "overlap-unsaid", In: "analyser.overlaps",
			What: "rows that may overlap are not reported as undecided",
			Old:  "case undecided > 0:", New: "case undecided > 1<<30:",
			Tests: []string{"internal/definition"}, Run: "TestUniqueIsDecided",
		},
		mutant{
			ID: "element-apart", In: "grouping.assign",
			What: "an element is given to a test that it may no longer meet later",
			Old:  "g.groups[i], g.texts[i] = both, text", New: "g.texts[i] = text",
			Run: "TestOverlapsAreComplete",
		},
		mutant{
			ID: "segment-fails", In: "solver.segment",
			What: "one row of a segment that fails is enough for it not to hold",
			Old:  "all := make([]goal, len(seg.rows))", New: "all := make([]goal, 1)",
			Run: "TestUnique",
		},
		mutant{
			ID: "required-is-there", In: "solver.solve",
			What: "a required field that is missing after all reaches no row",
			Old:  "c.onMissing && !s.t.insists(f)", New: "c.onMissing && s.t.insists(f)",
			Run: "TestAnalyse",
		},
		mutant{
			ID: "grid-unaffordable", In: "axisBuilder.affords",
			What: "the grid is made before its budget is looked at",
			Old:  "classes <= *b.budget/b.classCost()", New: "classes >= 0",
			Run: "TestGridIsAffordedFirst",
		},
		mutant{
			ID: "sweep-touching", In: "joiner.sweep",
			What: "ranges that overlap are taken to be past",
			Old:  "s.hi <= next.lo", New: "s.hi > next.lo",
			Run: "TestAnalysisOfManyRanges",
		},
	)
	add("internal/automata",
		mutant{
			ID: "overlap-of-text", In: "Search.Find",
			What: "an incomplete alphabet proves that no text meets two patterns",
			Old:  "complete := s.alphabet(fits)", New: "complete := s.alphabet(fits); s.runes = s.runes[:1]",
			Tests: []string{"rules"}, Run: "TestUniqueOverlaps|TestOverlapsAreComplete",
		},
	)
	add("internal/definition",
		mutant{
			ID: "analysis-again", In: "loader.analyse",
			What: "every loading analyses all tables",
			Old:  "b == nil || b.analysis == nil", New: "true",
			Run: "TestAnalysisIsKept",
		},
		mutant{
			ID: "analysis-past", In: "loader.analyse",
			What: "what was found is kept although a row has expired since",
			Old:  "t.table.ChangesWithin(b.analysis.at, now)", New: "false",
			Run: "TestAnalysisIsKept",
		},
	)
	add("internal/inspect",
		mutant{
			ID: "diff-unsaid", In: "tableDiff.run",
			What: "an edit without an example is not reported as undecided",
			Old:  "undecided || d.affected || d.unsure || d.splitsDiffer()", New: "d.exhausted",
			Run: "TestEditsAreNotSilent",
		},
		mutant{
			ID: "diff-ramp", In: "tableDiff.search",
			What: "the instants of a ramp are taken for the same",
			Old:  "meets(old, d.old.ramped) || meets(new, d.new.ramped)", New: "false",
			Run: "TestEditsAreNotSilent",
		},
		mutant{
			ID: "diff-segment", In: "changedModel.follow",
			What: "what a segment reads does not matter to the tables that ask for it",
			Old:  "c.segments[m.Key.Text] = true", New: "_ = m",
			Run: "TestEditsAreNotSilent",
		},
	)
}
