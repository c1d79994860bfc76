package trace

import (
	"crypto/sha256"
	"time"
)

// ReplyLifetime is how long a reply is given again.
const ReplyLifetime = 24 * time.Hour

// ReplyKey names a request: by the Idempotency-Key that its caller made up, which
// is good for one kind of route in one workspace.
type ReplyKey struct {
	Workspace string
	Route     string // metrics or endpoints
	Key       string
}

// Reply is the answer to a request with an idempotency key. A repetition of the
// request gets it again.
type Reply struct {
	ReplyKey
	APIKey   string            // the name of the key that the request came with
	Digest   [sha256.Size]byte // of the request
	Time     time.Time         // of the answer
	TraceID  ID                // that the answer names; zero: none
	Decision ID                // that the answer names; zero: none
	Status   int               // HTTP status
	Code     string            // error code; empty on success
	Body     []byte            // JSON

	// Earlier is set by a commit that found another reply under the key, no older
	// than ReplyLifetime. The commit then stored neither this reply nor the metrics
	// that it answers.
	Earlier *Reply
}

// Expired reports whether the reply is too old, now, to be given again.
func (r *Reply) Expired(now time.Time) bool { return !r.Time.After(now.Add(-ReplyLifetime)) }
