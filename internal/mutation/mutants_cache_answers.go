package main

func init() {
	add("cache",
		mutant{
			ID: "answer-later", In: "Lead.Answer",
			What: "an answer is not found when its flight ends",
			Old:  "l.answers.entries.Wait()", New: "_ = l",
			Run: "Answer",
		},
		mutant{
			ID: "answers-for-ever", In: "Lead.Answer",
			What: "answers never expire",
			Old:  "answer.size(), ttl", New: "answer.size(), 0",
			Run: "AnswerExpires",
		},
		mutant{
			ID: "stalled-leader", In: "Answers.wait",
			What: "requests of the same question wait as long as the first caller stalls",
			Old:  "f.held() >= maxHeld", New: "false",
			Run: "WaitersGoOn",
		},
		mutant{
			ID: "landing-of-another", In: "Answers.land",
			What: "the end of a leader that was given up on ends the flight of the next",
			Old:  "a.flights[question] == f", New: "f != nil",
			Run: "WaitersGoOn",
		},
		mutant{
			ID: "keys-without-lengths", In: "AppendText",
			What: "keys have no lengths",
			Old:  "dst = binary.AppendUvarint(dst, uint64(len(text)))", New: "_ = binary.MaxVarintLen16",
			Run: "KeysAreUnambiguous",
		},
	)
}
