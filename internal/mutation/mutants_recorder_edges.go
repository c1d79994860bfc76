package main

func init() {
	add("internal/recorder",
		mutant{
			ID: "replaced-refuses", In: "writer.fail",
			What: "metrics are refused where another store takes the place of this one",
			Old:  "errors.Is(err, ErrReplaced)", New: "false",
			Run: "Replaced",
		},
		mutant{
			ID: "broken-unheard", In: "writer.wait",
			What: "an idle store that is broken stays open",
			Old:  "<-w.broken", New: "<-make(chan int)",
			Run: "BreaksOff",
		},
		mutant{
			ID: "metrics-without-bound", In: "Recorder.pushDurable",
			What: "metrics that wait are not bounded in bytes",
			Old:  "!q.shares.admits(w.share, durableBytes, w.size, false)", New: "false",
			Run: "BytesAreBounded",
		},
		mutant{
			ID: "reports-one-by-one", In: "writer.next",
			What: "on one processor each report has a commit to itself",
			Old:  "runtime.Gosched()", New: "runtime.KeepAlive(w)",
			Run: "ShareACommitOnOneProcessor",
		},
		mutant{
			ID: "commit-cancelled", In: "writer.tryCommit",
			What: "Close cuts off the commit that is under way",
			Old:  "context.Background()", New: "context.WithValue(w.ctx, w, nil)",
			Run: "CloseIsBounded",
		},
	)
}
