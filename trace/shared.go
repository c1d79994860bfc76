package trace

// Shared is what the records of one request have in common. It is redacted, kept
// in memory and stored once for all of them. It must not change once a record
// refers to it. A store shows it on each record as if it were the record's own.
type Shared struct {
	Notes    []string // come before those of a record
	Metadata []byte   // JSON

	// Content: only of records that say so.
	Context   []byte // JSON
	Variables []byte // JSON
}
