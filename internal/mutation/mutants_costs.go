package main

func init() {
	add("internal/store/sqlite",
		mutant{
			ID: "costs-silently-nothing", In: "costAttempt.sums",
			What: "an attempt of a model without a price counts as one that cost nothing",
			Old:  "tokens > 0 && a.cost == 0 && !a.free", New: "false",
			Run: "Costs",
		},
		mutant{
			ID: "costs-of-earlier-versions", In: "costSummer.readAttempts",
			What: "the cost of a trace whose attempts have none is left out",
			Old:  "own || tokens == 0", New: "true",
			Run: "Costs",
		},
		mutant{
			ID: "costs-by-day-of-the-call", In: "costSummer.count",
			What: "an attempt counts on the day on which its call began",
			Old:  "millis+a.started/int64(time.Millisecond)", New: "millis",
			Run: "Costs",
		},
		mutant{
			ID: "costs-lose-the-others", In: "costSummer.costs",
			What: "what is not among the rows that cost the most is lost",
			Old:  "others.Add(&s.groups[name].CostSums)", New: "_ = name",
			Run: "Costs",
		},
		mutant{
			ID: "costs-of-any-values", In: "costSummer.again",
			What: "of very many values any are shown, and not those that cost the most",
			Old:  "tie || sum > least", New: "tie || sum < least",
			Run: "Costs",
		})
	add("internal/bill",
		mutant{
			ID: "bill-cached-twice", In: "result.openAIUsage",
			What: "tokens that OpenAI read from its cache count as others too",
			Old:  "-l.Tokens[Cached]", New: "",
			Run: "Parse",
		},
		mutant{
			ID: "bill-cents", In: "result.anthropicCost",
			What: "amounts of Anthropic's API are taken for dollars",
			Old:  "cents / 100", New: "cents",
			Run: "Parse",
		},
		mutant{
			ID: "bill-not-on-it", In: "comparison.addOurs",
			What: "what a bill does not have at all is not compared",
			Old:  "*one.has(r) = true", New: "",
			Run: "Compare",
		},
		mutant{
			ID: "bill-of-all-models", In: "comparison.addTheirs",
			What: "the sum of all models is compared with none",
			Old:  "model = allModels", New: "",
			Run: "Compare",
		},
		mutant{
			ID: "bill-last-line", In: "Line.plus",
			What: "of many lines of a model on a day the last one counts",
			Old:  "l.Tokens[kind] += o.Tokens[kind]", New: "l.Tokens[kind] = o.Tokens[kind]",
			Run: "Parse",
		},
		mutant{
			ID: "bill-repeated", In: "sample.add",
			What: "of two files that have the same lines in another order the samples have none in common",
			Old:  "slices.BinarySearch(*s, hash)", New: "len(*s), false",
			Run: "Compare",
		},
		mutant{
			ID: "bill-large-part", In: "file.next",
			What: "a row or a result of any size is read",
			Old:  "f.left = maxPart", New: "f.left = 1 << 40",
			Run: "LargeParts",
		},
		mutant{
			ID: "bill-more", In: "pages.page",
			What: "a file whose last page says that it is the last is said to lack some, because one before had a next",
			Old:  "p.e.More = false", New: "",
			Run: "Parse",
		},
		mutant{
			ID: "bill-page-of-other-hours", In: "pages.bucket",
			What: "pages of two hours with the same numbers are taken for one that is there twice",
			Old:  "maphash.WriteComparable(&p.said, start)", New: "_ = start",
			Run: "RepeatedPages",
		},
		mutant{
			ID: "bill-currency", In: "inDollars",
			What: "amounts of another currency are taken for dollars",
			Old:  `currency != "" && !strings.EqualFold(currency, "usd")`, New: "false",
			Run: "Parse",
		})
	add("internal/command",
		mutant{
			ID: "bill-always-matches", In: "reconcileCommand",
			What: "a bill that differs is no failure",
			Old:  "!r.Matches", New: "false",
			Run: "Golden|CostsOfAStore",
		})
	add("internal/gateway",
		mutant{
			ID: "costs-of-canned", In: "Workspace.cost",
			What: "answers of providers that call no host have an unknown cost",
			Old:  ` || w.hosts[a.Provider] == ""`, New: "",
			Run: "CostOfAnAttempt",
		})
}
