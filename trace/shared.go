package trace

// Shared has the common members of the records of one request. It is redacted, kept
// in memory and stored once for all of them. It must not change once a record
// refers to it. A store shows its members on each record as the record's own.
type Shared struct {
	Notes    []string // come before the record's own notes
	Metadata []byte   // JSON

	// Content, only for records with SharesContent.
	Context   []byte // JSON
	Variables []byte // JSON
}
