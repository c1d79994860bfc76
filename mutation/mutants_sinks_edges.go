package main

func init() {
	add("sinks/jsonlines",
		mutant{
			ID: "logrotate-create", In: "File.open",
			What: "a file that logrotate makes at once gets no lines",
			Old:  "os.SameFile(info, opened)", New: "(info == nil || opened != nil)",
			Run: "File",
		},
	)
}
