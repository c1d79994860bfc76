// Command mutation breaks the code on purpose, one small change at a time, and
// reports whether the tests notice:
//
//	go run ./internal/mutation                      # all mutants
//	go run ./internal/mutation caddymodule rules    # those of these packages
//	go run ./internal/mutation -run leases          # those whose name or description matches
//	go run ./internal/mutation -list                # what there is
//
// A mutant names a package, a declaration in it and the text that changes
// there, but no line, so that edits elsewhere do not affect it. For example, the
// mutant
//
//	In: "split.part", Old: ">= s.shares", New: "> s.shares", Run: "SplitBoundaries"
//
// makes each share one bucket wider, and TestSplitBoundaries must fail then. The
// command writes no file of the tree: go test sees the changed file through an
// overlay. For each mutant it prints one of
//
//	killed            with the test that failed
//	SURVIVED          no test failed
//	does not apply    the declaration is gone, or the text isn't there exactly once
//	does not compile  the change is no longer Go that builds
//
// It exits with status 1 unless all were killed. Before a mutant runs, its tests
// run on the unchanged code, where they must pass.
//
// An ordinary test, part of go test ./..., checks that each mutant still
// applies and that the tests it names exist. Where an edit has changed a
// mutant's text, mend the mutant in the same commit: what it guards is usually
// still in the code under another wording. Where it is gone, remove the mutant.
//
// A new mutant goes into mutants_PACKAGE.go, or into a file of its own
// (mutants_PACKAGE_SUBJECT.go); each file adds its mutants to the list by
// itself. Write one for code that would break silently: wiring between packages,
// bounds, locks, anything that a review found untested.
package main
