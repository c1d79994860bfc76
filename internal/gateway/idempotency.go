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

// retryConflict is the Retry-After of a request whose idempotency key another request is
// using. Metrics take a commit; nobody knows how long a model takes.
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
func (h *holdings) claim(key string) *wire.Error {
	reply := &trace.Reply{
		ReplyKey: trace.ReplyKey{Workspace: h.workspace.Name, Route: h.route.name, Key: key},
		APIKey:   h.key.name,
		Digest:   h.digest(),
	}
	if err := h.workspace.Store.claims.take(reply.ReplyKey, reply.Digest); err != nil {
		return err
	}
	h.reply = reply
	return nil
}

// unclaim releases the request's key, if it holds one. It must happen before the
// answer is sent, because the caller may send the request again at once.
func (h *holdings) unclaim() {
	if h.reply != nil {
		h.workspace.Store.claims.release(h.reply.ReplyKey)
		h.reply = nil
	}
}

// digest identifies the request: two requests with the same digest are the same.
func (in *incoming) digest() [sha256.Size]byte {
	folder := ""
	if in.route.kind != nil {
		folder = in.route.kind.Folder
	}
	h := sha256.New()
	for _, part := range [...]string{folder, in.pathID, in.r.URL.RawQuery} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write([]byte(part))
	}
	h.Write(in.body.Body())
	return [sha256.Size]byte(h.Sum(nil))
}

// replay answers with the reply to an earlier request with the same key.
func (h *holdings) replay(kept *trace.Reply) outcome {
	if kept.Digest != h.reply.Digest {
		return refused(mismatch())
	}
	h.unclaim()
	if err := h.takeRoom(len(kept.Body), adviseRepetition); err != nil {
		return refused(err)
	}
	header := h.w.Header()
	if kept.TraceID != (trace.ID{}) {
		h.info.traceID[0] = kept.TraceID.String()
		h.nameTrace(header)
	}
	if !kept.Decision.IsZero() {
		h.info.decisionID[0] = kept.Decision.String()
		header[wire.HeaderDecisionID] = h.info.decisionID[:]
	}
	header[wire.HeaderIdempotentReplayed] = idempotentReplayed
	if kept.Status >= http.StatusInternalServerError {
		header[wire.HeaderShouldRetry] = wire.ShouldNotRetry // a repetition gets the same answer
	}
	h.deliver(kept.Status, kept.Body, time.Now())
	if code, failed := wire.LookupCode(kept.Code); failed {
		return outcome{&wire.Error{Code: code}, answered} // the metrics count the code
	}
	return outcome{end: answered}
}

var idempotentReplayed = []string{"true"}

// replayed answers an endpoint's request from the store, or claims its idempotency
// key, if it has one.
func (h *holdings) replayed() outcome {
	key, err := wire.IdempotencyKey(h.r.Header)
	if err == nil && key == "" {
		return outcome{}
	}
	if err == nil {
		err = h.claim(key)
	}
	if err != nil {
		return refused(err)
	}
	kept, failure := h.workspace.Store.Recorder.Reply(h.r.Context(), h.reply.ReplyKey, h.began)
	switch {
	case failure != nil:
		h.workspace.Logger.Warn("an idempotency key could not be looked up", zap.Error(failure))
		err := wire.Errorf(wire.StoreUnavailable, "", "Whether the request was answered before can't be told. Send it again, or without its %s.", wire.HeaderIdempotencyKey)
		err.RetryAfter = retryStore
		return refused(err)
	case kept != nil:
		return h.replay(kept)
	}
	return outcome{}
}

// keepReply stores an endpoint's answer if the request has an idempotency key. The caller
// of keepReply sends the answer afterwards, or refuses it for lack of room. An answer that
// can't be stored is sent too: it was paid for.
func (i *invocation) keepReply(status int, code string, body []byte) {
	if i.reply == nil {
		return
	}
	i.reply.TraceID, _ = trace.ParseID(i.info.traceID[0])
	i.reply.Decision = i.decisionID
	i.reply.Time, i.reply.Status, i.reply.Code, i.reply.Body = time.Now(), status, code, body
	// The reply is kept even if the caller leaves now: it may ask again.
	err := i.workspace.Store.Recorder.Keep(context.WithoutCancel(i.r.Context()), i.reply)
	if err != nil {
		i.workspace.Logger.Error("an answer could not be kept: a repetition asks the model again",
			zap.String("trace_id", i.info.traceID[0]), zap.Error(err))
	}
	i.unclaim()
}

// keepFailure stores the error of an endpoint whose providers were called. It keeps none
// that asks the caller to mend the request, or to repeat it: a 4xx, a 503 and a 529 mean
// that no provider took it.
func (i *invocation) keepFailure(failure *wire.Error) {
	switch failure.Status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout:
		if i.reply != nil {
			i.keepReply(failure.Status, failure.Name, i.route.appendError(nil, failure))
		}
	}
}
