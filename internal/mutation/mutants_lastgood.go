package main

// What is served when the definitions on disk can't be.
func init() {
	add("internal/definition",
		mutant{
			ID: "removal-of-a-kind", In: "removal",
			What: "an edit may remove all definitions of a kind",
			Old:  "now[kind] > 0 || n == 0", New: "true",
			Run: "TestRemoval|TestEmptied",
		},
		mutant{
			ID: "removal-of-half", In: "removal",
			What: "an edit may remove more than half of all definitions",
			Old:  "2*now.total() < served.total()", New: "false",
			Run: "TestRemoval",
		},
		mutant{
			ID: "removal-for-good", In: "removal",
			What: "what was served can't be removed on purpose",
			Old:  "if next.emptying {", New: "if false {",
			Run: "TestRemoval|TestEmptied",
		},
		mutant{
			ID: "removal-at-a-start", In: "Source.Settle",
			What: "a start serves a directory that was emptied meanwhile",
			Old:  "served != nil && last != nil", New: "false",
			Run: "TestRestore",
		},
		mutant{
			ID: "strict-in-vain", In: "Source.Settle",
			What: "a strict start goes on with invalid definitions",
			Old:  "strict || last == nil", New: "last == nil",
			Run: "TestRestore",
		},
		mutant{
			ID: "settled-again", In: "Source.Settle",
			What: "a reload goes back to what the store holds",
			Old:  "if s.settled {", New: "if false {",
			Run: "TestSettleWithoutASet",
		},
		mutant{
			ID: "failing-since", In: "Source.fail",
			What: "an error that lasts seems to have begun just now",
			Old:  "since = last.since", New: "_ = last",
			Run: "TestRestore",
		},
		mutant{
			ID: "comments-unkept", In: "Source.Reload",
			What: "the store does not get the files after an edit of comments",
			Old:  "!slices.Equal(next.Files, served.Files)", New: "false",
			Run: "TestFollow",
		},
		mutant{
			ID: "past-bomb", In: "Past.directory",
			What: "a store's files are read whatever their size",
			Old:  "d.bytes+s.size > MaxBytes", New: "false",
			Run: "TestPastLeavesNoHalf",
		},
		mutant{
			ID: "past-outside", In: "Past.directory",
			What: "a store's files may be outside of the folder",
			Old:  "!fs.ValidPath(f.Path)", New: "false",
			Run: "TestPastLeavesNoHalf",
		},
		mutant{
			ID: "past-changed", In: "Past.directory",
			What: "a store's files may have been changed",
			Old:  "hashOf(s.data) != f.Hash", New: "false",
			Run: "TestPastLeavesNoHalf",
		},
		mutant{
			ID: "allowed-unseen", In: "watcher.concerns",
			What: "the file that allows a removal is not noticed",
			Old:  " || name == allowEmpty", New: "",
			Run: "TestEmptied", Timeout: hang,
		},
	)
	add("internal/recorder",
		mutant{
			ID: "revision-in-memory", In: "Batch.Durable",
			What: "a power cut loses what a start needs to serve",
			Old:  " || len(b.Revisions) > 0", New: "",
			Run: "TestRevisions",
		},
		mutant{
			ID: "revision-set-aside", In: "writer.keepServed",
			What: "a new store knows nothing of what is served",
			Old:  "w.reopened && ", New: "false && ",
			Run: "TestRevisionsOfAReplacedStore",
		},
	)
	add("internal/store/sqlite",
		mutant{
			ID: "revisions-without-end", In: "Store.keepRevision",
			What: "the store keeps every revision for ever",
			Old:  "s.writer.execute(forgetRevisionsSQL, workspace, integerValue(maxRevisions))", New: "error(nil)",
			Run: "TestRevisionsAreBounded",
		},
		mutant{
			ID: "revisions-of-any-size", In: "Store.sweep",
			What: "revisions are kept whatever their files take",
			Old:  "total+size > maxRevisionBytes", New: "false",
			Run: "TestRevisionsAreBoundedInBytes",
		},
		mutant{
			ID: "revisions-swept-late", In: "Store.Commit",
			What: "the files of a minute are kept whatever they take",
			Old:  "s.unswept > sweepBytes", New: "false",
			Run: "TestRevisionsAreBoundedInBytes",
		},
		mutant{
			ID: "served-swept", In: "Store.sweep",
			What: "a set that is served is deleted for its size",
			Old:  "full && newest[workspace]", New: "full",
			Run: "TestRevisionsAreBoundedInBytes",
		},
		mutant{
			ID: "files-without-end", In: "Store.Maintain",
			What: "the store keeps files that no revision has",
			Old:  "s.unswept > 0", New: "false",
			Run: "TestFilesAreStoredOnce",
		},
	)
	add("caddymodule",
		mutant{
			ID: "starts-whatever-runs", In: "startsAnyway",
			What: "a reload takes invalid definitions",
			Old:  " && !cadenzaRuns()", New: " || !cadenzaRuns()",
			Run: "TestBadNight", Tests: []string{"cmd/caddy"},
		},
		mutant{
			ID: "starts-in-every-command", In: "startsAnyway",
			What: "validate takes invalid definitions",
			Old:  `called("run")`, New: "true",
			Run: "TestBadNight", Tests: []string{"cmd/caddy"},
		},
		mutant{
			ID: "reload-unseen", In: "acquireSource",
			What: "a reload right after an edit does not read it",
			Old:  "served && !anyway", New: "served && false",
			Run: "TestEditUnderLoad",
		},
	)
}
