package recorder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/trace"
)

// ErrUnavailable is wrapped by the error of metrics that were not stored, and of a
// trace key that could not be read: the store is not open, fails, or has more to
// write than it can. The caller may report the same metrics again.
var ErrUnavailable = errors.New("the trace store is unavailable")

// ErrBroken is wrapped by the errors of a store that must be closed and opened
// again. After any other error the recorder tries the same store again.
var ErrBroken = errors.New("the store must be opened anew")

// ErrReplaced is an ErrBroken of a store that another replaces next: the batch
// that this store failed to commit will not be in that one.
var ErrReplaced = fmt.Errorf("%w: another takes its place", ErrBroken)

// Store is the storage of a recorder, which calls all methods but Reply from one
// goroutine.
type Store interface {
	// Commit stores a batch whole or not at all. When it returns nil, a durable
	// batch is on stable storage, and any other at least with the operating
	// system. An interrupted call whose record is already stored, and a version
	// that is known, are not stored again. If another reply is kept under the key
	// of a reply and has not expired at the time of this one, neither this reply
	// nor its metrics are stored, and the other becomes its Earlier. The batch and
	// its content are the caller's again when Commit returns.
	Commit(ctx context.Context, batch *Batch) error

	// Maintain does one small step of housekeeping, such as deleting some of the
	// traces past the retention, and reports whether another is due.
	Maintain(ctx context.Context, now time.Time) (more bool, err error)

	// Reply returns the reply that is kept under key and has not expired at the
	// time now, or nil. It may be called concurrently, but not after Close began.
	Reply(ctx context.Context, key trace.ReplyKey, now time.Time) (*trace.Reply, error)

	// TraceKey returns the secret that trace ids are made under. A new store
	// makes one and keeps it.
	TraceKey(ctx context.Context) ([]byte, error)

	// Broken returns a channel that is closed when the store is found to be broken
	// outside Commit and Maintain. Both then fail with ErrBroken.
	Broken() <-chan struct{}

	// Close releases the store's resources.
	Close() error
}

// Batch is the content of one transaction of a store.
type Batch struct {
	Interrupted []*trace.Record // upstream calls that have no end
	Records     []*trace.Record
	Metrics     []*trace.Metrics
	Replies     []*trace.Reply // without the replies of metrics
	Versions    []trace.Version
	// Revisions are the sets that began to be served, of a workspace and directory at
	// most one.
	Revisions []*Revision
	// Experiments are those of sets that began to be served, of a workspace at most one.
	Experiments []*Experiments
	// Refusals are to be added to the counts of their hours.
	Refusals []*Refusal
	// Peaks count if they are above those of their hours.
	Peaks []Peak
	// Counts are to be added to those of their traces, which are in this or in an earlier
	// batch.
	Counts []Count
}

// Revision is a set of definitions that a workspace serves from a directory.
type Revision struct {
	Workspace string
	Directory string // absolute
	Revision  string
	Time      time.Time // when it began to be served
	Files     []trace.File
}

// Experiments are all those that a workspace serves from a time on.
type Experiments struct {
	Workspace string
	Time      time.Time
	Plans     []experiment.Plan // those of rollouts, too
	// Rollouts are the names of all rollouts that the definitions have, also of those that
	// take no more steps. Nil: they are not known.
	Rollouts []string
}

// Durable reports whether the batch must be on stable storage before it counts
// as committed.
func (b *Batch) Durable() bool {
	return len(b.Metrics) > 0 || len(b.Replies) > 0 || len(b.Revisions) > 0 || len(b.Experiments) > 0
}

// Len returns how many things the batch holds.
func (b *Batch) Len() int {
	return len(b.Interrupted) + len(b.Records) + len(b.Metrics) + len(b.Replies) + len(b.Versions) + len(b.Revisions) + len(b.Experiments) + len(b.Refusals) + len(b.Peaks) + len(b.Counts)
}
