// Command mutation breaks the code on purpose, one small change at a time, and reports
// whether the tests notice:
//
//	go run ./internal/mutation                      # all packages that have mutants of their own
//	go run ./internal/mutation caddymodule rules    # these packages
//	go run ./internal/mutation -draw -1 trace       # with all generated mutants
//	go run ./internal/mutation -run leases          # mutants whose line in the list matches
//	go run ./internal/mutation -list                # the list
//
// It generates mutants from operators, conditions, constants and statements, and draws 20
// of each package: the same ones all day, others with another -seed. Mutants that take
// thought are in the package's testdata/mutants.txt:
//
//	# A comment.
//	each share is one bucket wider
//		split.part: >= s.shares => > s.shares
//	a removed target keeps its name [TestRemovedTargets|TestReload]
//		targetSeries.name: if t == nil { return "" } =>
//	a key is accepted without a workspace [caddymodule cmd/caddy: TestKeys]
//		Gateway.admit: w == nil => false
//		Gateway.admit: defer w.release() => _ = w
//
// A line without a tab says what the changes below it break, and which tests must notice:
// all tests of the package unless brackets follow. A pattern selects tests as in go test
// -run. Directories select the tests of other packages, all of them if nothing follows the
// colon. A change is a declaration (Func, Type.Method, or a variable, constant or type),
// the old text, which is exactly once in the declaration, and the new text, which may be
// missing. A blank of the old text stands for any white space of the code, and "; " also
// for the end of a line, so that several lines are written as one. Lines of code have no
// numbers here: edits elsewhere do not affect a mutant.
//
// The command writes no file of the tree: the go command sees the changed files through an
// overlay. All mutants are compiled at once, each as a closure at the beginning of its
// function, and an environment variable switches one of them on. So a mutant costs one run
// of the tests and no build. A mutant outside functions, or in a function that calls
// recover, gets a build of its own. For each mutant the command prints one of
//
//	killed            with the test that failed
//	SURVIVED          no test failed
//	does not compile  the change is no longer Go that builds
//
// and at the end all mutants that were not killed. It exits with status 1 if one of them is
// from the data: some generated ones change nothing that a test could see. The command
// names and leaves out tests that fail in such a binary without a mutant, such as tests
// that count allocations. For generated mutants the tests run with -short.
//
// An ordinary test, part of go test ./..., checks that each mutant of the data still
// applies, that the tests it names exist and that the command does not generate it. If an
// edit has changed a mutant's text, mend its line in the same commit: the code that it
// guards is usually still there under another wording. If it is gone, remove the line.
// Write a new one for code that would break silently: wiring between packages, bounds,
// locks, anything that a review found untested.
package main
