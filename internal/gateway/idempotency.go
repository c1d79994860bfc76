package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/trace"
)

// retryConflict is the Retry-After of a request whose idempotency key is in use by
// one that is being answered. Metrics take a commit; the time that a model takes is
// unknown.
const retryConflict = time.Second

// claims are the idempotency keys whose requests are being answered, with the
// requests' digests.
type claims struct {
	mu   sync.Mutex
	held map[trace.ReplyKey][sha256.Size]byte
}

func newClaims() *claims { return &claims{held: make(map[trace.ReplyKey][sha256.Size]byte)} }

// take claims the key. It fails while another request holds it.
func (c *claims) take(key trace.ReplyKey, digest [sha256.Size]byte) *wire.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	holder, held := c.held[key]
	switch {
	case !held:
		c.held[key] = digest
		return nil
	case holder != digest:
		return mismatch()
	}
	err := wire.Errorf(wire.Conflict, wire.HeaderIdempotencyKey, "A request with this %s is being answered. Send it again when that is done.", wire.HeaderIdempotencyKey)
	err.RetryAfter = retryConflict
	return err
}

func (c *claims) release(key trace.ReplyKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, key)
}

func mismatch() *wire.Error {
	return wire.Errorf(wire.IdempotencyMismatch, wire.HeaderIdempotencyKey, "This %s belongs to another request. Send the same request to get its answer again, or a new key with a new request.", wire.HeaderIdempotencyKey)
}

// claim takes an idempotency key for the request, until unclaim or the end of the
// call.
func (c *call) claim(key string) *wire.Error {
	reply := &trace.Reply{
		ReplyKey: trace.ReplyKey{Workspace: c.workspace.Name, Route: c.route.name, Key: key},
		APIKey:   c.key.name,
		Digest:   c.digest(),
	}
	if err := c.workspace.Store.claims.take(reply.ReplyKey, reply.Digest); err != nil {
		return err
	}
	c.reply = reply
	return nil
}

// unclaim releases the request's key, if it holds one. It must happen before the
// answer is sent, because the caller may send the request again at once.
func (c *call) unclaim() {
	if c.reply != nil {
		c.workspace.Store.claims.release(c.reply.ReplyKey)
		c.reply = nil
	}
}

// digest identifies the request: two requests with the same digest are the same.
func (c *call) digest() [sha256.Size]byte {
	kind := ""
	switch c.route.kind {
	case trace.KindPrompt:
		kind = "prompts"
	case trace.KindRemoteConfig:
		kind = "remoteconfigs"
	}
	h := sha256.New()
	for _, part := range [...]string{kind, c.pathID, c.r.URL.RawQuery} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write([]byte(part))
	}
	h.Write(c.request.Body())
	return [sha256.Size]byte(h.Sum(nil))
}

// replay answers with the reply to an earlier request with the same key.
func (c *call) replay(kept *trace.Reply) outcome {
	if kept.Digest != c.reply.Digest {
		return refused(mismatch())
	}
	c.unclaim()
	if err := c.takeRoom(len(kept.Body), adviseRepetition); err != nil {
		return refused(err)
	}
	h := c.w.Header()
	if kept.TraceID != (trace.ID{}) {
		c.info.traceID[0] = kept.TraceID.String()
		c.nameTrace(h)
	}
	if !kept.Decision.IsZero() {
		c.info.decisionID[0] = kept.Decision.String()
		h[wire.HeaderDecisionID] = c.info.decisionID[:]
	}
	h[wire.HeaderIdempotentReplayed] = idempotentReplayed
	if kept.Status >= http.StatusInternalServerError {
		h[wire.HeaderShouldRetry] = wire.ShouldNotRetry // a repetition is answered so, too
	}
	c.deliver(kept.Status, kept.Body, time.Now())
	if code, failed := wire.LookupCode(kept.Code); failed {
		return outcome{&wire.Error{Code: code}, answered} // the metrics count the code
	}
	return outcome{end: answered}
}

var idempotentReplayed = []string{"true"}

// replayed answers an endpoint's request from the store, or claims its idempotency
// key, if it has one.
func (c *call) replayed() outcome {
	key, err := wire.IdempotencyKey(c.r.Header)
	if err == nil && key == "" {
		return outcome{}
	}
	if err == nil {
		err = c.claim(key)
	}
	if err != nil {
		return refused(err)
	}
	kept, failure := c.workspace.Store.Recorder.Reply(c.r.Context(), c.reply.ReplyKey, c.began)
	switch {
	case failure != nil:
		c.workspace.Logger.Warn("an idempotency key could not be looked up", zap.Error(failure))
		err := wire.Errorf(wire.StoreUnavailable, "", "Whether the request was answered before can't be told. Send it again, or without its %s.", wire.HeaderIdempotencyKey)
		err.RetryAfter = retryStore
		return refused(err)
	case kept != nil:
		return c.replay(kept)
	}
	return outcome{}
}

// keepReply stores an endpoint's answer if the request has an idempotency key. It
// does so before the answer is sent, or refused for lack of room. An answer that
// can't be stored is sent in any case: it was paid for.
func (c *call) keepReply(status int, code string, body []byte) {
	if c.reply == nil {
		return
	}
	c.reply.TraceID, _ = trace.ParseID(c.info.traceID[0])
	c.reply.Decision = c.decisionID
	c.reply.Time, c.reply.Status, c.reply.Code, c.reply.Body = time.Now(), status, code, body
	// The reply is kept even if the caller leaves now: it may ask again.
	err := c.workspace.Store.Recorder.Keep(context.WithoutCancel(c.r.Context()), c.reply)
	if err != nil {
		c.workspace.Logger.Error("an answer could not be kept: a repetition asks the model again",
			zap.String("trace_id", c.info.traceID[0]), zap.Error(err))
	}
	c.unclaim()
}

// keepFailure stores the error of an endpoint whose providers were asked. It does
// not keep a 503: that means that no provider took the request, and asks the caller
// to repeat it.
func (c *call) keepFailure(told *wire.Error) {
	if c.reply != nil && told.Status != http.StatusServiceUnavailable {
		c.keepReply(told.Status, told.Name, c.route.appendError(nil, told))
	}
}
