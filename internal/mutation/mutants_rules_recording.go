package main

func init() {
	add("rules",
		mutant{
			ID: "trail-tables-twice", In: "Trail.walk",
			What: "a table that is in the trail already is gone through again",
			Old:  "; seen {", New: "; seen && false {",
			Run: "TrailOfSeveral",
		},
		mutant{
			ID: "trail-asked-twice", In: "Trail.ask",
			What: "a prerequisite is listed for each row that asks",
			Old:  "tr.seen[t] = true", New: "",
			Run: "TrailOfSeveral|TrailAgainst",
		},
		mutant{
			ID: "trail-below-the-answer", In: "Table.walkFew",
			What: "rows below the one that decided are in the trail",
			Old:  "d.Row >= 0 &&", New: "false &&",
			Run: "TestTrail",
		},
		mutant{
			ID: "trail-of-the-decision-itself", In: "Binding.decision",
			What: "a prerequisite that is evaluated for the trail appends what it consults twice",
			Old:  "b.trail = nil", New: "b.trail = trail",
			Run: "TrailAgainst",
		},
		mutant{
			ID: "trail-of-an-earlier-binding", In: "Binding.reset",
			What: "a binding that was given up keeps its trail",
			Old:  "b.trail = nil", New: "",
			Run: "TestTrailOfAnEarlier",
		},
		mutant{
			ID: "reads-twice", In: "Table.finish",
			What: "a table that reads a field twice also reads the first field of all",
			Old:  "t.reads = slices.Compact(t.reads)\n\tt.own = slices.Clone(t.reads)", New: "t.own = slices.Clone(slices.Compact(t.reads))",
			Run: "TestFieldsAre",
		},
		mutant{
			ID: "trail-left-on", In: "Trail.walk",
			What: "later evaluations append to a trail that is done",
			Old:  "b.trail = before", New: "_ = before",
			Run: "Trail",
		},
		mutant{
			ID: "trail-kept", In: "Trail.Reset",
			What: "a trail still has the tables of the request before",
			Old:  "clear(tr.seen)", New: "",
			Run: "TrailOfSeveral",
		},
		mutant{
			ID: "prerequisites-first", In: "tableReader.cells",
			What: "a row asks its prerequisites though another cell fails",
			Old:  "!= prerequisites", New: "== prerequisites",
			Run: "Trail",
		},
		mutant{
			ID: "trail-computed", In: "Table.walkFew",
			What: "the trail of a decision from a cache takes computed fields for missing",
			Old:  "b.resolve(slot)", New: "_ = slot",
			Run: "TrailAgainst",
		},
		mutant{
			ID: "share-of-all-arms", In: "split.consulted",
			What: "the share of a unit that was passed on is that of the last arm",
			Old:  "c.Share += ", New: "c.Share = ",
			Run: "Trail",
		},
		mutant{
			ID: "splits-without-ceiling", In: "Trail.consult",
			What: "a trace has thousands of splits",
			Old:  "len(tr.Splits) >= MaxSplits", New: "false",
			Run: "ManySplits",
		},
		mutant{
			ID: "arm-of-the-next-row", In: "tableReader.split",
			What: "arms are counted from the outcomes of the rows above",
			Old:  "s.first, s.arms = len(r.t.outcomes), arms", New: "s.first, s.arms = 0, append(make([]string, len(r.t.outcomes)+1), arms...)",
			Run: "TestArm",
		},
		mutant{
			ID: "again-a-split", In: "Table.Again",
			What: "a remembered decision of a split is a match",
			Old:  "d.Reason = Split", New: "d.Reason = Match",
			Run: "TestArm",
		},
		mutant{
			ID: "inputs-in-the-clear", In: "Table.AppendInputs",
			What: "a value that the data model keeps out of traces is recorded",
			Old:  " || f.trace == traceNone", New: "",
			Run: "TestInputs",
		},
		mutant{
			ID: "inputs-of-any-length", In: "Table.AppendInputs",
			What: "a value of 257 bytes is recorded as it is",
			Old:  "<= maxInput", New: "<= maxInput+1",
			Run: "TestInputs",
		},
		mutant{
			ID: "inputs-never-asked", In: "Table.AppendInputs",
			What: "the fields of prerequisites are recorded that were not asked",
			Old:  "slots := t.own", New: "slots := t.reads",
			Run: "InputsOfPrerequisites",
		},
		mutant{
			ID: "units-in-secret-fields", In: "field.records",
			What: "the unit of a split is recorded though it is computed from a field that is not to be",
			Old:  "m.fields[slot].trace == traceNone", New: "false",
			Run: "SplitsJSON",
		},
		mutant{
			ID: "hash-of-another-spelling", In: "Binding.unit",
			What: "a unit of other case is another unit",
			Old:  "b.values[slot].str", New: "b.values[slot].text",
			Run: "Hashed|SplitsJSON|Inputs",
		},
		mutant{
			ID: "hashes-of-the-last-request", In: "Binding.reset",
			What: "a record has the hashes of an earlier context",
			Old:  "b.hashes = b.hashes[:0]", New: "",
			Run: "HashedOnce",
		},
		mutant{
			ID: "values-by-default", In: "field.defaultTrace",
			What: "open text is recorded as it is unless the data model says otherwise",
			Old:  "&& f.allowed != nil", New: "",
			Run: "TraceModes",
		},
	)
	add("trace",
		mutant{
			ID: "hash-of-joined-texts", In: "Hasher.append",
			What: "a field and a value share their hash with another field and value",
			Old:  "	k.write(\"\\x00\")\n", New: "",
			Run: "Hash",
		},
		mutant{
			ID: "hash-of-all-workspaces", In: "NewHasher",
			What: "a caller has the same hash in all workspaces",
			Old:  "hashKeyInfo+workspace", New: "hashKeyInfo",
			Run: "Hash",
		},
		mutant{
			ID: "hash-of-what-came-before", In: "Hasher.append",
			What: "a hash is of all values that were hashed",
			Old:  "	k.mac.Reset()\n", New: "",
			Run: "Hash",
		},
		mutant{
			ID: "hash-of-another-value", In: "knownHash.is",
			What: "a value gets the hash of another that was remembered in its place",
			Old:  "k.value[k.field:] == text", New: "true",
			Run: "RememberedHashes",
		},
		mutant{
			ID: "hash-of-each-value", In: "Hasher.Append",
			What: "values that come once take memory",
			Old:  "h.seen[place].Swap(tag) == tag", New: "tag == tag",
			Run: "HashesOfOtherValues",
		},
	)
}
