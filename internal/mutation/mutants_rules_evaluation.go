package main

func init() {
	add("rules",
		mutant{
			ID: "split-width", In: "split.part",
			What: "a share is one bucket wider",
			Old:  ">= s.shares", New: "> s.shares",
			Run: "SplitBoundaries",
		},
		mutant{
			ID: "key-without-schedules", In: "Table.AppendKey",
			What: "a remembered decision outlives the schedule of a prerequisite",
			Old:  "dst = s.appendSchedule(dst, now)", New: "_, _ = s, now",
			Run: "KeyHasSchedules|Schedule",
		},
		mutant{
			ID: "schedules-of-prerequisites", In: "Table.ask",
			What: "a table takes over no schedules of those it asks",
			Old:  "t.timed = append(t.timed, s)", New: "_ = s",
			Run: "KeyHasSchedules",
		},
		mutant{
			ID: "nested-once", In: "Table.ask",
			What: "the schedules of prerequisites count once for each path to them",
			Old:  "!seen", New: "!seen || true",
			Run: "OverManyPaths", Timeout: hang,
		},
		mutant{
			ID: "decide-once", In: "Binding.decision",
			What: "a prerequisite is decided again for each row that asks",
			Old:  "b.decisions[t] = d", New: "_ = t",
			Run: "DecidedOnce",
		},
		mutant{
			ID: "decisions-of-the-last-request", In: "Binding.reset",
			What: "a prerequisite's decision is that of an earlier context",
			Old:  "clear(b.decisions)", New: "_ = b.decisions",
			Run: "DecidedOnce",
		},
		mutant{
			ID: "date-upper-bound", In: "Binding.setDate",
			What: "a date may lie beyond the year 9999",
			Old:  "key < minDate || key > maxDate", New: "key < minDate",
			Run: "DateBounds",
		},
		mutant{
			ID: "sparse-last-row", In: "index.evaluateLists",
			What: "the last row of a sparse column is not found",
			Old:  "len(rest) == 0 {", New: "len(rest) <= 1 {",
			Run: "Sparse",
		},
		mutant{
			ID: "sparse-next-word", In: "index.evaluateLists",
			What: "a sparse column is looked at from one word too far on",
			Old:  "w = int(rest[0] >> 6)", New: "w = int(rest[0]>>6) + 1",
			Run: "Sparse",
		},
		mutant{
			ID: "declared-fields", In: "Model.decodeFields",
			What: "a data model has any number of fields",
			Old:  "len(n.Members) > maxFields", New: "false",
			Run: "ModelCeilings",
		},
		mutant{
			ID: "long-values", In: "atom.match",
			What: "patterns look at values of any length",
			Old:  "v.long && a.more.pattern", New: "false",
			Run: "LongValues",
		},
		mutant{
			ID: "long-values-indexed", In: "index.evaluateLists",
			What: "parts are looked for in values of any length",
			Old:  "v.long && c.kind == partColumn", New: "false",
			Run: "PatternColumns|LongValues",
		},
		mutant{
			ID: "remember-what-reads-now", In: "Table.Cacheable",
			What: "a decision that reads the instant is remembered",
			Old:  " && !t.readsNow", New: "",
			Run: "NowInComputed",
		},
		mutant{
			ID: "now-by-way-of-a-segment", In: "Model.orderSegments",
			What: "a segment hides that an expression reads the instant",
			Old:  "s.readsNow = s.readsNow || m.readsNow(slot)", New: "_ = m.readsNow",
			Run: "NowInComputed",
		},
		mutant{
			ID: "ends-cut-short", In: "column.class",
			What: "a text is looked up by less than the longest end",
			Old:  "[maxEnd + 2]byte", New: "[maxEnd]byte",
			Run: "LongEnds",
		},
		mutant{
			ID: "parts-within-parts", In: "partFinder.link",
			What: "a part that ends within another one is not found",
			Old:  "f.hit[state], f.more[state] = f.hit[fail[state]], f.hit[fail[state]]", New: "f.hit[state] = f.hit[fail[state]]",
			Run: "PatternColumns",
		},
		mutant{
			ID: "elements-without-coercion", In: "Binding.appendElement",
			What: "coerce: false does not hold for the elements of lists",
			Old:  "kind != fastjson.TypeString && !f.coerce", New: "false",
			Run: "ListsWithoutCoercion",
		},
		mutant{
			ID: "open-address-range", In: "cellReader.address",
			What: "a range of IPv4 addresses goes on into IPv6",
			Old:  "s[0].hi = string(rune(ipv6Key))", New: "_ = lo",
			Run: "AddressRanges",
		},
	)
	add("internal/definition",
		mutant{
			ID: "slow-load", In: "Source.reportSlow",
			What: "a loading that does not end is not reported",
			Old:  "s.publish(s.Snapshot(), err)", New: "_ = err",
			Run: "SlowLoad",
		},
		mutant{
			ID: "slow-load-ended", In: "Source.reportSlow",
			What: "a loading that has ended is reported as slow",
			Old:  "over = true\n\t\ttimer.Stop()", New: "_ = timer",
			Run: "SlowLoad",
		},
		mutant{
			ID: "remarks", In: "loader.table",
			What: "quoted text that looks like a pattern is not warned of",
			Old:  "l.remark(t.Remarks())", New: "",
			Run: "Remarks",
		},
		mutant{
			ID: "remarks-again", In: "loader.decodeModel",
			What: "a warning of the data model is gone after an edit elsewhere",
			Old:  "l.remark(last.model.Remarks())", New: "",
			Run: "Remarks",
		},
	)
	add("internal/gateway",
		mutant{
			ID: "slow-load-shown", In: "Workspace.definitionsChanged",
			What: "a loading that takes long is counted as a change that failed",
			Old:  "errors.AsType[*definition.SlowLoadError](err)", New: "(*definition.SlowLoadError)(nil), false",
			Run: "SlowLoad",
		},
		mutant{
			ID: "cacheable", In: "call.decide",
			What: "decisions that must be made each time are remembered",
			Old:  "|| !table.Cacheable(&c.binding)", New: "",
			Run: "Cacheable",
		},
	)
}
