package main

func init() {
	add("internal/gateway",
		mutant{
			ID: "limits-read-the-body", In: "Gateway.answer",
			What: "a request beyond a limit has its body read",
			Old:  "	if err := c.admitEarly(); err != nil {\n		return outcome{err, unread}\n	}\n", New: "",
			Run: "ALimitOfRequests|RequestsUnderWay",
		},
		mutant{
			ID: "limits-never-settled", In: "call.release",
			What: "what a call's limits set aside is never given back",
			Old:  "	c.meter.settle()\n", New: "",
			Run: "RequestsUnderWay|ALimitOfRequests",
		},
		mutant{
			ID: "limits-forget-a-panic", In: "meter.settle",
			What: "a call that panics has used nothing",
			Old:  "	used := m.taken\n", New: "	used := limit.Amounts{}\n",
			Run: "EveryEnding",
		},
		mutant{
			ID: "limits-forget-who-goes-on", In: "call.spend",
			What: "a provider that goes on after its call has used nothing",
			Old:  "if a.Abandoned && ", New: "if false && ",
			Run: "EveryEnding",
		},
		mutant{
			ID: "limits-count-refused", In: "meter.settle",
			What: "a request that one limit refuses counts for the others",
			Old:  "	if !m.refused {\n		used.Requests = 1\n	}\n", New: "	used.Requests = 1\n",
			Run: "WhatALimitCountsBy",
		},
		mutant{
			ID: "limits-forgive-mistakes", In: "call.admitted",
			What: "a request for an unknown endpoint counts for no limit by endpoint",
			Old:  "if err := c.admitLate(\"\", false); err != nil {", New: "if err := (*wire.Error)(nil); err != nil {",
			Run: "MistakesCount",
		},
		mutant{
			ID: "limits-free-attempts", In: "meter.Take",
			What: "attempts after the first are not set aside",
			Old:  "m.settled || !m.setAside(next)", New: "m.settled",
			Run: "AttemptsWithinABudget",
		},
		mutant{
			ID: "limits-charge-followers", In: "call.enterCall",
			What: "a call that the cache answers sets tokens aside",
			Old:  "return question, c.enter(nil)", New: "_ = c.afford(p.targets, p.messages)\n	return question, c.enter(nil)",
			Run: "RememberedAnswers",
		},
		mutant{
			ID: "limits-only-the-dearest", In: "meter.fits",
			What: "a call is refused although its cheapest target fits",
			Old:  " || m.setAside(m.extreme(leastOf))", New: "",
			Run: "AttemptsWithinABudget",
		},
		mutant{
			ID: "limits-seen-by-themselves", In: "call.shareBefore",
			What: "a table sees the request itself as used",
			Old:  "			s.Reserved = max(s.Reserved-1, 0)\n", New: "",
			Run: "ABudgetAsAField",
		},
	)
}
