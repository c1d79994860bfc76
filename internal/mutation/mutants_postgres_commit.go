package main

func init() {
	add("sinks/postgres",
		mutant{
			ID: "commit-rolled-back", In: "transaction.commit",
			What: "a COMMIT that rolled back counts as a delivery",
			Old:  `tag.String() != "COMMIT"`, New: `tag.String() == ""`,
			Run: "CommitThatRolledBack",
		},
	)
}
