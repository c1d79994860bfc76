package main

func init() {
	add("internal/gateway",
		mutant{
			ID: "max-metadata-size", In: "Gateway.answer",
			What: "max_metadata_size has no effect",
			Old:  "c.request.SetMetadataLimit(c.workspace.MaxMetadataSize)", New: "",
			Run: "TestMetadataCeiling",
		},
		mutant{
			ID: "room-of-a-workspace", In: "takeBoth",
			What: "slow readers of one workspace leave no room for the others",
			Old:  "own.take(bytes, had, ownMost)", New: "own.take(bytes, had, most)",
			Run: "LargeAnswersTakeTurns",
		},
		mutant{
			ID: "room-of-the-refused", In: "takeBoth",
			What: "a workspace whose large answer was refused has no room for good",
			Old:  "		own.taken.Add(-bytes)\n", New: "",
			Run: "LargeAnswersTakeTurns",
		},
		mutant{
			ID: "room-of-a-workspace-given-back", In: "giveBoth",
			What: "a workspace has large answers refused for good once it had many",
			Old:  "	own.taken.Add(-bytes)\n", New: "",
			Run: "LargeAnswersTakeTurns",
		},
		mutant{
			ID: "room-of-endpoints", In: "invocation.send",
			What: "slow readers of models' answers fill the memory",
			Old:  "i.writer.Size(&i.answer)", New: "0",
			Run: "LargeAnswersOfEndpoints",
		},
		mutant{
			ID: "room-of-replays", In: "call.replay",
			What: "slow readers of answers that are given again fill the memory",
			Old:  "len(kept.Body)", New: "0",
			Run: "LargeAnswersOfEndpoints",
		},
		mutant{
			ID: "paid-for-and-refused", In: "invocation.send",
			What: "an answer that had no room is paid for again, whatever its idempotency key",
			Old:  "		i.keepReply(http.StatusOK, \"\", i.out)\n", New: "",
			Run: "LargeAnswersOfEndpoints",
		},
	)
	add("internal/wire",
		mutant{
			ID: "metadata-of-endpoints", In: "Request.Endpoint",
			What: "the metadata of a request for an endpoint has no ceiling",
			Old:  "r.MetadataMember(body)", New: `ObjectMember(body, "metadata")`,
			Run: "MetadataCeiling",
		},
		mutant{
			ID: "metadata-of-reports", In: "Request.metricsRecord",
			What: "the metadata of a report, in a body or a query string, has no ceiling",
			Old:  "r.MetadataMember(body)", New: `ObjectMember(body, "metadata")`,
			Run: "MetadataCeiling",
		},
		mutant{
			ID: "texts-of-reports", In: "Request.metricsRecord",
			What: "the texts of a report have no ceiling",
			Old:  "m.checkTexts()", New: "(*Error)(nil)",
			Run: "ReportTextCeilings",
		},
	)
	add("internal/invoke",
		mutant{
			ID: "names-of-upstreams", In: "reading.close",
			What: "the names that an upstream gives have no ceiling",
			Old:  "withShortNames(r.stream.Result())", New: "r.stream.Result()",
			Run: "NamesOfUpstreams",
		},
	)
	add("internal/store/sqlite",
		mutant{
			ID: "room-of-lists", In: "shortWithin",
			What: "a list counts metadata alone",
			Old:  "record.Size()", New: "len(record.Metadata)",
			Run: "ListsAreBounded",
		},
	)
	add("internal/store/sqlite",
		mutant{
			ID: "replies-go-first", In: "Store.Maintain",
			What: "replies have no share of their own, and take traces and metrics",
			Old:  "s.shrinkReplies(ctx); more || err != nil", New: "s.shrinkReplies(ctx); false",
			Run: "RepliesNeverTakeMetrics",
		},
		mutant{
			ID: "replies-of-a-key", In: "Store.shrinkReplies",
			What: "the replies of one API key evict those of others",
			Old:  "totals[i].bytes > share/replyKeyPart", New: "totals[i].bytes > share",
			Run: "ReplyCeilings",
		},
		mutant{
			ID: "replies-evict-the-newest", In: "Store.deleteOldestReplies",
			What: "the newest replies go first",
			Old:  "ORDER BY time_ms LIMIT", New: "ORDER BY time_ms DESC LIMIT",
			Run: "ReplyCeilings",
		},
	)
	add("internal/gateway",
		mutant{
			ID: "evictions-counted", In: "Store.Config",
			What: "what is deleted for the size is not counted",
			Old:  "m.recorders.countEvicted(s.Path, table, rows)", New: "_, _ = table, rows",
			Run: "TestEvictionsAreCounted",
		},
	)
	add("internal/gateway",
		mutant{
			ID: "replies-whose", In: "call.claim",
			What: "replies of all API keys count as one's",
			Old:  "APIKey:   c.key.name,", New: "",
			Run: "TestReplyOfAnAPIKey",
		},
	)
	add("internal/recorder",
		mutant{
			ID: "no-parts", In: "shares.divide",
			What: "one workspace may take all of the queue",
			Old:  "s.max[what] / 2 / s.joined", New: "0",
			Run: "WorkspacesHaveTheirShare",
		},
		mutant{
			ID: "durable-without-parts", In: "Recorder.pushDurable",
			What: "one workspace may take all the room for metrics",
			Old:  "!q.shares.admits(w.share, durableCount, 1, false)", New: "q.durable.len() >= r.options.MaxMetrics",
			Run: "WorkspacesHaveTheirShare",
		},
		mutant{
			ID: "room-given-back", In: "queue.take",
			What: "the place of a record that was written is not given back",
			Old:  "q.give(r.place, recordCount)", New: "q.bytes -= r.size",
			Run: "QueueIsGivenBack",
		},
		mutant{
			ID: "durable-room-given-back", In: "queue.refuse",
			What: "the place of metrics that were refused is not given back",
			Old:  "q.giveDurable(w)", New: "q.durableBytes -= w.size",
			Run: "QueueIsGivenBack",
		},
	)
	add("internal/gateway",
		mutant{
			ID: "leaves-the-queue", In: "Workspace.end",
			What: "a workspace that is gone keeps its part of the queue",
			Old:  "w.Store.Recorder.Leave(w.Name)", New: "",
			Run: "TestWorkspacesShareTheQueue",
		},
	)
	add("internal/gateway",
		mutant{
			ID: "joins-the-queue", In: "Workspace.start",
			What: "a workspace has no part of the queue of its own",
			Old:  "w.Store.Recorder.Join(w.Name)", New: "",
			Run: "TestWorkspacesShareTheQueue",
		},
	)
	add("internal/recorder",
		mutant{
			ID: "request-without-bound", In: "Recorder.Evaluations",
			What: "what one request records is not bounded",
			Old:  "			room -= size\n", New: "			_ = size\n",
			Run: "RequestIsBounded",
		},
		mutant{
			ID: "start-without-bound", In: "Recorder.Start",
			What: "a start is dropped for its content",
			Old:  "r.bound(record, MaxRecordSize, false)", New: "record.Size()",
			Run: "RecordIsBounded",
		},
	)
	add("internal/store/sqlite",
		mutant{
			ID: "gaps-kept", In: "erasure.clean",
			What: "an erasure leaves copies of rows between the cells of pages",
			Old:  "e.wipeGaps(ctx)", New: "error(nil)",
			Run: "ErasureLeavesNoGaps",
		},
		mutant{
			ID: "free-blocks-kept", In: "zeroGaps",
			What: "an erasure leaves copies of rows in free blocks",
			Old:  "zero(page[at+4:at+size]) || changed", New: "changed",
			Run: "ZeroGaps",
		},
	)
	add("internal/wire",
		mutant{
			ID: "body-of-another-length", In: "Request.ReadBody",
			What: "a body that a handler puts in the place of the caller's has no limit",
			Old:  "int64(len(r.body)) > limit", New: "false",
			Run: "ReadBody",
		},
		mutant{
			ID: "deadline-of-a-piece", In: "WriteBody",
			What: "a reader that stalls holds a large answer for minutes",
			Old:  "WriteTime(len(piece))", New: "WriteTime(len(body))",
			Run: "SlowReader",
		},
		mutant{
			ID: "deadline-of-a-body", In: "WriteBody",
			What: "a reader may take half a minute for each piece of a large answer",
			Old:  "now.Add(WriteTime(len(body)))", New: "now.Add(time.Hour)",
			Run: "SlowReader",
		},
		mutant{
			ID: "deadline-of-a-large-event", In: "EventStream.write",
			What: "a reader that stalls holds a large event for minutes",
			Old:  "piece := nextPiece(rest)", New: "piece := rest",
			Run: "LargeEventsHaveDeadlines",
		},
	)
	add("internal/prompt",
		mutant{
			ID: "wording-of-a-prompt", In: "Answer.Template",
			What: "the wording of a prompt doesn't count as rendered",
			Old:  "	a.text += t.fixed\n", New: "",
			Run: "TestRender",
		},
	)
}
