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
			ID: "keys-without-lengths", In: "AppendText",
			What: "keys have no lengths",
			Old:  "dst = binary.AppendUvarint(dst, uint64(len(text)))", New: "_ = binary.MaxVarintLen16",
			Run: "KeysAreUnambiguous",
		},
	)
}
