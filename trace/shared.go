package trace

// Shared is what the records of one request have in common. It is redacted,
// kept in memory and stored once for all of them, however many keys a request
// names. Its records refer to it, and it must not change any more. A store shows
// it on each of them as if it were the record's own.
type Shared struct {
	Notes    []string // come before those of a record
	Metadata []byte   // JSON

	// Content: only of records that say so.
	Context   []byte // JSON
	Variables []byte // JSON

	// countedWith is the record whose size has that of this in it. It does not
	// change once that record is the recorder's.
	countedWith *Record
}

// size is about what the members take in memory, in bytes.
func (s *Shared) size() int {
	return recordOverhead + len(s.Metadata) + len(s.Context) + len(s.Variables) + notesSize(s.Notes)
}
