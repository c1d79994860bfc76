package main

func init() {
	add("internal/limit",
		mutant{
			ID: "reserved-uncounted", In: "cell.room",
			What: "calls at the same time exceed a ceiling together",
			Old:  "of.Most - sum(c.total(), c.reserved)", New: "of.Most - c.total()",
			Run: "TestParallelCalls",
		},
		mutant{
			ID: "some-asks", In: "Reservation.check",
			What: "a limit is not asked after one that has room",
			Old:  "worst = &Refusal{", New: "_ = &Refusal{",
			Run: "TestAllAsks",
		},
		mutant{
			ID: "refused-in-flight", In: "Limiter.reserve",
			What: "a call that is refused stays in flight",
			Old:  "		r.leave()\n", New: "",
			Run: "TestModel|TestCrossed",
		},
		mutant{
			ID: "later-window", In: "Reservation.Settle",
			What: "a call that ends in a later window counts there",
			Old:  "if c.turn != h.turn {", New: "if false {",
			Run: "TestCallsCount",
		},
		mutant{
			ID: "clock-set-back", In: "Limiter.roll",
			What: "a clock that is set back gives a budget twice",
			Old:  "case start > c.start:", New: "case start != c.start:",
			Run: "TestClock",
		},
		mutant{
			ID: "made-up-subjects", In: "Limiter.account",
			What: "subjects that are made up escape a limit",
			Old:  "subject != Others && !l.admits(b)", New: "false",
			Run: "TestSubjectsAreBounded",
		},
		mutant{
			ID: "one-limit-takes-all", In: "Limiter.admits",
			What: "the subjects of one limit take the room of another",
			Old:  "return beyond < half", New: "return l.subjects.Load() < l.most",
			Run: "TestSubjectsAreBounded",
		},
		mutant{
			ID: "crossed-again", In: "Reservation.crosses",
			What: "a level is told of with each call",
			Old:  "	c.told |= bit\n", New: "",
			Run: "TestCrossed",
		},
		mutant{
			ID: "crash-forgets", In: "file.merge",
			What: "what a killed process had set aside is free again",
			Old:  "c.used, c.reserved = sum(c.used, c.reserved), 0", New: "c.reserved = 0",
			Run: "TestStateOutlives",
		},
		mutant{
			ID: "torn-limits", In: "frameAt",
			What: "a record that is damaged counts",
			Old:  "binary.LittleEndian.Uint32(text[4:]) != check(payload, seed)", New: "false",
			Run: "TestTorn",
		},
		mutant{
			ID: "half-a-file", In: "newest",
			What: "a file that was not written to its end counts",
			Old:  "a.whole != b.whole && b.whole || a.whole == b.whole && b.generation > a.generation", New: "b.generation > a.generation",
			Run: "MustHold",
		},
		mutant{
			ID: "changes-meanwhile", In: "file.change",
			What: "what changes while a file is written anew is lost",
			Old:  "f.next = append(f.next, f.out[at:]...)", New: "f.next = append(f.next, f.out[len(f.out):]...)",
			Run: "TestFileIsBounded|TestDisk",
		},
		mutant{
			ID: "limit-file-hangs", In: "file.wait",
			What: "a file that hangs holds each call",
			Old:  "		f.slow = true\n", New: "",
			Run: "TestDiskThatHangs",
		},
		mutant{
			ID: "settled-beyond-later", In: "Reservation.Settle",
			What: "a crash forgets what a call has just used beyond what was set aside",
			Old:  "	if beyond {\n", New: "	if beyond = false; beyond {\n",
			Run: "MustHold|TestSettlement",
		},
		mutant{
			ID: "settled-once", In: "file.run",
			What: "settlements wait for the next reservation, however long that takes",
			Old:  "			f.late.Store(false)\n", New: "",
			Run: "MustHold|TestSettlement",
		},
		mutant{
			ID: "settled-together", In: "file.change",
			What: "many settlements at a time wait for more memory than a file that hangs may take",
			Old:  "len(f.out) > muchUnwritten", New: "false",
			Run: "TestManySettlements",
		},
		mutant{
			ID: "counted-twice", In: "file.count",
			What: "what another process had counted counts twice when it ends",
			Old:  "sum(c.used, found.used)-counted", New: "sum(c.used, found.used)-0*counted",
			Run: "TestTwoProcesses",
		},
		mutant{
			ID: "file-grows", In: "file.step",
			What: "the file grows without end",
			Old:  "f.ends[f.used] > f.bound", New: "false",
			Run: "TestFileIsBounded",
		},
		mutant{
			ID: "moved-limits", In: "file.look",
			What: "what is written to a file that was moved is lost",
			Old:  "private.Moved(f.files[0]) || private.Moved(f.files[1])", New: "false",
			Run: "TestFileIsMoved",
		},
		mutant{
			ID: "emptied-limits", In: "file.look",
			What: "what a file had that was emptied is lost",
			Old:  "case f.overwritten():", New: "case false:",
			Run: "TestFileIsTruncated",
		},
		mutant{
			ID: "read-only-limits", In: "file.open",
			What: "files that can't be written begin budgets anew with each start",
			Old:  "if !f.mine && f.before == nil {", New: "if errors.Is(err, private.ErrLocked) && !f.mine && f.before == nil {",
			Run: "TestFileThatCanOnlyBeRead",
		},
	)
}
