package main

import "time"

// What the tests killed when the list was made.
func init() {
	add("trace",
		mutant{
			ID: "score-of-a-configuration", In: "Kind.Takes",
			What: "the trace of a remote configuration takes a score",
			Old:  `case "score", "chain_id", "conversation_id":`, New: `case "chain_id", "conversation_id":`,
			Run: "TestReduce",
		},
		mutant{
			ID: "ids-of-another-workspace", In: "NewAuthority",
			What: "the ids of one workspace are valid in all",
			Old:  "checkKeyInfo+workspace", New: "checkKeyInfo",
			Run: "IDsVerify",
		},
		mutant{
			ID: "ids-descend-with-the-clock", In: "Authority.reserve",
			What: "ids descend when the clock goes back",
			Old:  "millis > a.millis", New: "millis != a.millis",
			Run: "IDsAscend",
		},
		mutant{
			ID: "ids-count", In: "Authority.reserve",
			What: "two ids show how many were made in between",
			Old:  "a.millis, first = millis, min(rand.Uint64()&counterMask, counterMask+1-n)", New: "a.millis, first = millis+0*int64(rand.Uint64()), a.counter+1",
			Run: "IDsDoNotCount",
		},
		mutant{
			ID: "ids-descend-when-wrapped", In: "Authority.reserve",
			What: "ids descend when the counter wraps",
			Old:  "a.counter > counterMask-n", New: "false",
			Run: "IDsAscend",
		},
		mutant{
			ID: "kind-of-ids", In: "Authority.Verify",
			What: "an id of no kind is valid",
			Old:  " || !kind.valid()", New: "",
			Run: "UnknownKindDoesNotVerify",
		},
		mutant{
			ID: "half-the-check", In: "Authority.genuine",
			What: "half of the check is enough",
			Old:  "int32(a.check(id)), int32(binary.BigEndian.Uint32(id[12:]))", New: "int32(a.check(id)&0xffff), int32(binary.BigEndian.Uint32(id[12:])&0xffff)",
			Run: "IDsVerify",
		},
		mutant{
			ID: "reply-at-its-end", In: "Reply.Expired",
			What: "a reply is given again a moment too long",
			Old:  "!r.Time.After(", New: "r.Time.Before(",
			Run: "Replies", Tests: []string{"internal/recorder"},
		},
	)
	add("internal/recorder",
		mutant{
			ID: "lost-batch", In: "writer.dropBatch",
			What: "records that were lost are not counted",
			Old:  "w.lose(workspace, lostFailed, count)", New: "_, _ = workspace, count",
			Run: "CloseGivesUpOnAFailingStore|Panic",
		},
		mutant{
			ID: "end-before-its-commit", In: "writer.commit",
			What: "a start record is cleared before the end of its call is stored",
			Old:  "	err := w.tryCommit(store)\n", New: "	w.endCalls()\n	err := w.tryCommit(store)\n",
			Run: "CallsStayUntilTheirEndIsStored",
		},
		mutant{
			ID: "lost-ends", In: "Recorder.push",
			What: "a call whose end is lost leaves nothing",
			Old:  "		r.tell(record.Workspace, why, tell)\n		r.loseEnd(record)\n", New: "		r.tell(record.Workspace, why, tell)\n",
			Run: "LostEndsShowAsInterrupted",
		},
		mutant{
			ID: "abandoned-metrics", In: "queue.take",
			What: "metrics that were refused are stored all the same",
			Old:  "		if w.abandoned {\n			continue\n		}\n", New: "",
			Run: "MetricsAreGivenUp",
		},
		mutant{
			ID: "room-for-ends", In: "Recorder.End",
			What: "the end of a call is dropped when the queue is full of evaluations",
			Old:  "MaxRecordSize, false), true)", New: "MaxRecordSize, false), false)",
			Run: "Ceilings",
		},
		mutant{
			ID: "queue-ceiling", In: "queue.admits",
			What: "the queue holds one more than it may",
			Old:  "q.shares.admits(p.share, count, 1, extra)", New: "q.shares.admits(p.share, count, 0, extra)",
			Run: "Ceilings",
		},
		mutant{
			ID: "late-starts", In: "Recorder.Start",
			What: "starts that come late are not counted",
			Old:  "		r.counters.lateStarts.Add(1)\n", New: "",
			Run: "LateStarts",
		},
		mutant{
			ID: "metrics-wait-for-ever", In: "Recorder.store",
			What: "a report waits for ever where the store does not answer",
			Old:  "	case <-timer.C:\n", New: "	case <-make(chan struct{}):\n",
			Run: "MetricsAreGivenUp", Timeout: hang,
		},
		mutant{
			ID: "replies-not-durable", In: "Batch.Durable",
			What: "a reply is acknowledged before it is on disk",
			Old:  " || len(b.Replies) > 0", New: "",
			Run: "RepliesComeBackAsTheyWere|Durable", Tests: []string{"internal/store/sqlite", "internal/recorder"},
		},
		mutant{
			ID: "broken-store-not-reopened", In: "writer.serve",
			What: "a broken store is used on",
			Old:  "if errors.Is(err, ErrBroken) {", New: "if false {",
			Run: "FailingStore|Reopen|Broken", Timeout: time.Minute,
		},
		mutant{
			ID: "waiters-not-told", In: "writer.fail",
			What: "a report that waits for a commit that failed has no answer",
			Old:  "	w.refuseTaken(err)\n", New: "",
			Run: "FailingStore", Timeout: time.Minute,
		},
	)
}
