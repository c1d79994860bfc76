package main

// What the tests killed when the list was made.
func init() {
	add("providers/bedrock",
		mutant{
			ID: "message-checksum", In: "messageReader.next",
			What: "a garbled message is read",
			Old:  "crc32.ChecksumIEEE(frame[:total-crcSize]) != binary.BigEndian.Uint32(frame[total-crcSize:])", New: "crc32.ChecksumIEEE(frame[:total-crcSize]) == 0 && binary.BigEndian.Uint32(frame[total-crcSize:]) == 1",
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
