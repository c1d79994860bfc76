package recorder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

// ErrUnavailable is wrapped by the error of metrics that were not stored, and
// of a trace key that could not be had: the store is not open, fails, or has
// more to write than it can. The same metrics may be reported again.
var ErrUnavailable = errors.New("the trace store is unavailable")

// ErrBroken is wrapped by the errors of a store that must be closed and opened
// anew. Whatever else a store fails with is worth another try on it.
var ErrBroken = errors.New("the store must be opened anew")

// ErrReplaced is an ErrBroken that says that the store which is opened next is
// another one: nothing of what this one failed to commit will be in it.
var ErrReplaced = fmt.Errorf("%w: another takes its place", ErrBroken)

// Store is where a recorder writes. Its methods are called from one goroutine,
// all but Reply.
type Store interface {
	// Commit stores a batch whole or not at all. When it returns nil, a durable
	// batch is on stable storage, and any other at least with the operating
	// system. A start whose record is already stored, and a version that is
	// known, are not stored again; a record replaces its start. A reply under
	// whose key another stands that has not expired at the time of the reply is
	// not stored, nor are its metrics, and the other becomes its Earlier. The
	// batch and what it holds are the caller's again when Commit returns.
	Commit(ctx context.Context, batch *Batch) error

	// Maintain does one small step of housekeeping, such as deleting some of
	// what is older than the retention, and reports whether another is due.
	Maintain(ctx context.Context, now time.Time) (more bool, err error)

	// Reply returns the reply that is kept under key and has not expired at the
	// time now, or nil. It may be called concurrently, but not after Close began.
	Reply(ctx context.Context, key trace.ReplyKey, now time.Time) (*trace.Reply, error)

	// TraceKey returns the secret that trace ids are made under. A new store
	// makes one and keeps it.
	TraceKey(ctx context.Context) ([]byte, error)

	// Broken is closed when the store turns out to be broken elsewhere than in
	// Commit and Maintain, both of which then fail with ErrBroken.
	Broken() <-chan struct{}

	// Close gives up what the store holds.
	Close() error
}

// Batch is what a store commits at once.
type Batch struct {
	Starts   []*trace.Record // of upstream calls
	Records  []*trace.Record
	Metrics  []*trace.Metrics
	Replies  []*trace.Reply // beside those of metrics
	Versions []trace.Version
}

// Durable reports whether the batch must be on stable storage before it counts
// as committed.
func (b *Batch) Durable() bool { return len(b.Metrics) > 0 || len(b.Replies) > 0 }

// Len counts what the batch holds.
func (b *Batch) Len() int {
	return len(b.Starts) + len(b.Records) + len(b.Metrics) + len(b.Replies) + len(b.Versions)
}
