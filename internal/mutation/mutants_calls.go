package main

func init() {
	add("internal/recorder/calls",
		mutant{
			ID: "torn-records", In: "scan",
			What: "a start record that was torn is taken for one",
			Old:  "if sound(text, seed, slot) {", New: "if true {",
			Run: "DamagedRecords",
		},
		mutant{
			ID: "forged-records", In: "sum",
			What: "a caller can forge the start record of another",
			Old:  "seed + uint64(slot)", New: "0",
			Run: "ContentIsNoRecord",
		},
		mutant{
			ID: "start-waits-for-ever", In: "File.Start",
			What: "a disk that hangs holds a call",
			Old:  "	case <-w.timer.C:\n", New: "",
			Run: "StartWaitsNoLonger",
		},
		mutant{
			ID: "slots-not-cleared", In: "File.clear",
			What: "what a call sent stays in the file after its end",
			Old:  "f.zero(file, s)", New: "error(nil)\n		_ = file",
			Run: "CallsOutliveTheirProcess",
		},
		mutant{
			ID: "ended-while-written", In: "File.put",
			What: "a call that ends while its start is written stays",
			Old:  "case c.ended:", New: "case false:",
			Run: "StartWaitsNoLonger",
		},
	)
	add("internal/private",
		mutant{
			ID: "living-process", In: "OpenLocked",
			What: "the calls of a process that lives are taken for interrupted",
			Old:  "err != nil {\n			if errors.Is(err, syscall.EWOULDBLOCK) {", New: "false {\n			if errors.Is(err, syscall.EWOULDBLOCK) {",
			Tests: []string{"internal/recorder/calls"}, Run: "ProcessesHaveFiles",
		},
	)
}
