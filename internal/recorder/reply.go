package recorder

import (
	"context"
	"errors"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

// Keep stores a reply, as Metrics stores metrics. If it returns nil and Earlier
// is set, the store keeps that other reply under the key. reply is the caller's
// again when Keep returns.
func (r *Recorder) Keep(ctx context.Context, reply *trace.Reply) error {
	w := &waitingDurable{reply: cloneReply(reply), result: make(chan error, 1)}
	if err := r.store(ctx, w); err != nil {
		return err
	}
	reply.Earlier = w.reply.Earlier
	return nil
}

// Reply returns the reply that is kept under key and has not expired at the time
// now, or nil. Its error wraps ErrUnavailable, or is ctx's error: the store
// can't be read, or could not keep another reply.
func (r *Recorder) Reply(ctx context.Context, key trace.ReplyKey, now time.Time) (*trace.Reply, error) {
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

// read looks a reply up in the open store, and keeps the store open meanwhile.
func (r *Recorder) read(ctx context.Context, key trace.ReplyKey, now time.Time) (*trace.Reply, error) {
	r.open.RLock()
	defer r.open.RUnlock()
	if r.open.store == nil {
		return nil, nil // refusal says why
	}
	return r.open.store.Reply(ctx, key, now)
}
