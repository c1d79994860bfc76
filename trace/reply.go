package trace

import (
	"crypto/sha256"
	"time"
)

// ReplyLifetime is how long a repeated request gets the same reply.
const ReplyLifetime = 24 * time.Hour

// ReplyKey identifies a request by the Idempotency-Key of its caller, which is valid
// for one kind of route in one workspace.
type ReplyKey struct {
	Workspace string
	Route     string // metrics or endpoints
	Key       string
}

// Reply is the answer to a request with an idempotency key. A repeated request gets
// the same answer.
type Reply struct {
	ReplyKey
	APIKey   string            // the name of the request's API key
	Digest   [sha256.Size]byte // of the request
	Time     time.Time         // of the answer
	TraceID  ID                // in the answer; zero: none
	Decision ID                // in the answer; zero: none
	Status   int               // HTTP status
	Code     string            // error code; empty on success
	Body     []byte            // JSON

	// Earlier is the reply that a commit found under the key, if it is no older than
	// ReplyLifetime. The commit then stored neither this reply nor its metrics.
	Earlier *Reply
}

// Expired reports whether a repeated request at the time now gets another reply.
func (r *Reply) Expired(now time.Time) bool { return !r.Time.After(now.Add(-ReplyLifetime)) }
