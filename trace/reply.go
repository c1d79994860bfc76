package trace

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"
)

// ReplyLifetime is how long a reply is given again.
const ReplyLifetime = 24 * time.Hour

// ReplyKey is what names a request for good: the Idempotency-Key that its
// caller made up, which is good for one kind of route in one workspace.
type ReplyKey struct {
	Workspace string
	Route     string // metrics or endpoints
	Key       string
}

// Reply is the answer to a request with an idempotency key. A repetition of the
// request gets it again.
type Reply struct {
	ReplyKey
	APIKey  string            // the name of the key that the request came with
	Digest  [sha256.Size]byte // of the request
	Time    time.Time         // of the answer
	TraceID ID                // that the answer names; zero: none
	Status  int               // HTTP status
	Code    string            // error code; empty on success
	Body    []byte            // JSON

	// Earlier is set by a commit that found another reply under the key, not
	// older than ReplyLifetime. It then stored neither this one nor the metrics
	// that it answers.
	Earlier *Reply
}

// Expired reports whether the reply is too old, now, to be given again.
func (r *Reply) Expired(now time.Time) bool { return !r.Time.After(now.Add(-ReplyLifetime)) }

func (r *Reply) clone() *Reply {
	c := *r
	c.Body = slices.Clone(r.Body)
	return &c
}

// size is about what the reply takes in memory, in bytes.
func (r *Reply) size() int { return recordOverhead + len(r.Key) + len(r.Body) }

// Keep stores a reply, as Metrics stores metrics. If it returns nil and Earlier
// is set, another reply had been kept under the key, and still is. reply is the
// caller's again when Keep returns.
func (r *Recorder) Keep(ctx context.Context, reply *Reply) error {
	w := &waitingDurable{reply: reply.clone(), result: make(chan error, 1)}
	if err := r.store(ctx, w); err != nil {
		return err
	}
	reply.Earlier = w.reply.Earlier
	return nil
}

// Reply returns the reply that is kept under key and has not expired at the
// time now, or nil. Its error wraps ErrUnavailable, or is that of ctx: the store
// can't be read, or could not keep another reply.
func (r *Recorder) Reply(ctx context.Context, key ReplyKey, now time.Time) (*Reply, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, maxDurableWait, errTooLong)
	defer cancel()
	reply, err := r.read(ctx, key, now)
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errTooLong):
		return nil, unavailable(errTooLong)
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, unavailable(err)
	case reply != nil:
		return reply, nil
	}
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()
	return nil, r.queue.refusal()
}

// read looks a reply up in the store that is open, which stays open meanwhile.
func (r *Recorder) read(ctx context.Context, key ReplyKey, now time.Time) (*Reply, error) {
	r.open.RLock()
	defer r.open.RUnlock()
	if r.open.store == nil {
		return nil, nil // refusal says why
	}
	return r.open.store.Reply(ctx, key, now)
}
