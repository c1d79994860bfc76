package main

func init() {
	add("internal/invoke",
		mutant{
			ID: "breaker-window", In: "health.count",
			What: "failures of a round that is over count towards ejecting a target",
			Old:  "/int64(slotLength) - slots", New: "/int64(slotLength) - 4*slots",
		},
		mutant{
			ID: "caller-that-left", In: "call.handOn",
			What: "an answer is handed to a caller that left while it arrived",
			Old:  "err != nil {\n\t\treturn k.cause(a.ctx, err)", New: "err != nil && false {\n\t\treturn k.cause(a.ctx, err)",
		},
		mutant{
			ID: "late-first-piece", In: "attempt.began",
			What: "a first piece that comes with the timeout is handed on, of a stream that is cancelled",
			Old:  "if !a.clock.content() {", New: "if a.clock.content(); false {",
		},
		mutant{
			ID: "thoughts-begin-an-answer", In: "Target.readFirst",
			What: "an answer that began with a thought is given up, and another one follows it",
			Old:  " || pieces && speaks(&d)", New: "",
			Run: "Pieces",
		},
		mutant{
			ID: "thoughts-for-all", In: "call.wants",
			What: "a caller of the content alone gets thoughts and tool calls",
			Old:  "	if !k.Pieces {", New: "	if false {",
			Run: "Pieces",
		},
		mutant{
			ID: "rest-of-pieces", In: "call.giveRest",
			What: "a caller of pieces misses the tool calls of a provider that has them at the end",
			Old:  "i < len(a.result.ToolCalls)", New: "i < 0",
			Run: "Pieces",
		},
		mutant{
			ID: "silence-after-a-late-timer", In: "clock.follow",
			What: "a provider may be silent until the time for the first content is up",
			Old:  "		c.set(now, at)\n", New: "		_ = at\n",
			Run: "Clock",
		},
		mutant{
			ID: "late-attempts", In: "clock.start",
			What: "an attempt begins after the call's time is up",
			Old:  "		c.cancel(errTotal)\n", New: "",
			Run: "Clock",
		},
		mutant{
			ID: "deadline-decides", In: "call.decisive",
			What: "a call that used up its time ends with the failure before that",
			Old:  " || f.class == Deadline", New: "",
		},
		mutant{
			ID: "cool-down-ends", In: "admission.answered",
			What: "a target that answers goes on cooling",
			Old:  "h.cool = time.Time{}", New: "_ = h.cool",
		},
		mutant{
			ID: "bucket-bound", In: "bucket.income",
			What: "a good time pays for any number of retries",
			Old:  "min(b.tokens+bucketIncome, bucketSize)", New: "b.tokens + bucketIncome",
		},
		mutant{
			ID: "probe-pause", In: "admission.failed",
			What: "a target that hangs is tried as often as one that fails at once",
			Old:  "max(probeEvery, 2*took)", New: "probeEvery",
		},
		mutant{
			ID: "probe-pause-bound", In: "admission.failed",
			What: "a long try keeps a target away for longer than two minutes",
			Old:  "min(max(probeEvery, 2*took), maxPause)", New: "max(probeEvery, 2*took)",
		},
		mutant{
			ID: "probe-no-verdict", In: "admission.failed",
			What: "callers that give up on a target that hangs follow each other at once",
			Old:  "h.until = now.Add(took)", New: "h.until = now",
		},
		mutant{
			ID: "probe-alone", In: "health.closed",
			What: "several calls at once try a target that is down",
			Old:  " && h.probe.IsZero()", New: "",
		},
		mutant{
			ID: "probe-decides", In: "admission.decided",
			What: "a call from before the outage decides in the probe's place",
			Old:  "!a.decides.IsZero() && a.decides.Equal(a.probe)", New: "!a.probe.IsZero()",
		},
		mutant{
			ID: "probe-of-a-panic", In: "lane.target",
			What: "a provider that panics keeps its target away for ever",
			Old:  "defer u.health.release()", New: "_ = u.health",
		},
		mutant{
			ID: "answered-at-first-content", In: "lane.target",
			What: "an answer does not count for its target",
			Old:  "u.health.answered(time.Now())", New: "nil",
		},
		mutant{
			ID: "broken-answer", In: "admission.failed",
			What: "a stream that breaks off counts as answered and as failed",
			Old:  "a.uncount()\n", New: "\n",
		},
		mutant{
			ID: "running-calls", In: "health.count",
			What: "a burst of calls ejects a target that takes its time to answer most of them",
			Old:  "answers+running", New: "answers",
		},
		mutant{
			ID: "running-calls-that-began-later", In: "health.count",
			What: "a target that hangs is excused by the calls that have yet to find out",
			Old:  "if s.start <= began {", New: "if s.start > 0 {",
		},
		mutant{
			ID: "running-for-ever", In: "admission.end",
			What: "calls that are over count as running",
			Old:  "s.running--", New: "_ = s",
		},
		mutant{
			ID: "last-target-retries", In: "health.permitRetry",
			What: "a single target is not tried again when chance ejects it",
			Old:  "case !closed && !last:", New: "case !closed:",
		},
		mutant{
			ID: "last-target-needs-no-bucket", In: "health.permitRetry",
			What: "retries of a single target use up what they need when chance ejects it",
			Old:  "case closed && last:\n\t\treturn true", New: "case closed && last:\n\t\treturn h.bucket.draw() || true",
		},
		mutant{
			ID: "ejected-retries", In: "health.permitRetry",
			What: "a target that is left alone is tried again while another could take over",
			Old:  "case !closed && !last:", New: "case !closed && !last && false:",
		},
	)
}
