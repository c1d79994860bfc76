package main

// What the tests killed when the list was made.
func init() {
	add("providers/bedrock",
		mutant{
			ID: "message-checksum", In: "messageReader.next",
			What: "a garbled message is read",
			Old:  "errChecksum", New: "nil",
			Run: "NoCutOrCorruptAnswerIsComplete",
		},
		mutant{
			ID: "message-bounds", In: "messageReader.prelude",
			What: "a message is read beyond its end",
			Old:  "h+preludeSize+crcSize > t", New: "h+preludeSize > t",
			Run: "BrokenMessages",
		},
	)
}
