package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/cache"
	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// maxRemembered bounds the content of a cached answer, in bytes.
const maxRemembered = 1 << 20

// question identifies what an endpoint asks. The endpoint's version covers its
// targets, parameters and policies, the variant with the prompt's version covers the
// other parameters, and the messages cover everything that the caller supplied.
//
// The variants of an endpoint share no answers, even those with the same targets:
// one would get answers that are older than its own time allows, and of the model
// that the other's timeouts led to.
func (c *call) question(endpoint *definition.Endpoint, how *definition.Policy, variant *definition.Variant, messages []providers.Message) cache.Question {
	h := sha256.New()
	text := func(s string) {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(s)))
		h.Write(length[:])
		h.Write([]byte(s))
	}
	for _, s := range [...]string{c.workspace.Name, endpoint.Key, endpoint.Version, how.Key, endpoint.Prompt.Key, endpoint.Prompt.Version, variant.Key} {
		text(s)
	}
	for _, m := range messages {
		text(m.Role)
		text(m.Content)
	}
	return cache.Question(h.Sum(nil))
}

// remembered answers from an earlier call with the same question, waits for one
// that is under way, or takes the lead in asking it.
func (i *invocation) remembered(ctx context.Context, question cache.Question) outcome {
	// This endpoint's own total timeout bounds the wait for a shared answer.
	waiting, cancel := context.WithTimeout(ctx, i.request.Policy.Total)
	defer cancel()
	answer, lead, err := i.workspace.Memory.answers.Ask(waiting, question)
	switch {
	case err != nil && ctx.Err() == nil:
		i.finish(noResult, wire.UpstreamTimeout.Status, wire.UpstreamTimeout.Name)
		told := wire.Errorf(wire.UpstreamTimeout, "", "The model provider did not answer in time.")
		told.TraceID = i.info.traceID[0]
		return refused(told)
	case err != nil:
		// The caller left, or the gateway stops, while another request asked.
		return i.interrupted(ctx)
	case lead != nil:
		i.lead = lead
		i.gateway.metrics.lookups.WithLabelValues(i.workspace.Name, "answers", "miss").Inc()
		i.w.Header()[wire.HeaderCacheStatus] = cacheMiss
		return outcome{}
	}
	i.gateway.metrics.lookups.WithLabelValues(i.workspace.Name, "answers", "hit").Inc()
	i.record.Cached = true
	i.record.FinishReason = string(answer.Result.FinishReason)
	i.record.Provider, i.record.Model = answer.Provider, answer.Model
	h := i.w.Header()
	h[wire.HeaderCacheStatus] = []string{"Cadenza; hit; ttl=" + strconv.Itoa(max(int(time.Until(answer.Expires).Seconds()), 0))}
	h[wire.HeaderAttempts] = noAttempts
	target := invoke.Target{Name: answer.Provider, Model: answer.Model}
	h[wire.HeaderServedBy] = []string{target.String()}
	for _, piece := range answer.Pieces {
		i.keepContent(piece)
	}
	// The caller gets the number of tokens that the answer took, although this call
	// uses none.
	i.complete(&invoke.Result{Result: answer.Result})
	if i.request.Stream {
		stream, full := i.newStream()
		if full != nil {
			return refused(full)
		}
		defer stream.Close()
		// The whole answer stays in memory as long as its reader takes.
		stream.Limit(answer.Bytes()+len(i.beside.member), len(answer.Pieces))
		i.finish(noResult, http.StatusOK, "")
		for n, piece := range answer.Pieces {
			if stream.Delta(providers.Delta{Content: piece}, n == len(answer.Pieces)-1) != nil {
				return outcome{end: cut}
			}
		}
		_ = stream.Finish() // a caller that left has no use for the error
		return outcome{end: answered}
	}
	i.answer.Content = strings.Join(answer.Pieces, "")
	return i.send(noResult)
}

var noAttempts = []string{"0"}

// remember keeps a piece of the answer for the cache.
func (i *invocation) remember(content string) {
	if i.lead == nil {
		return
	}
	if i.size += len(content); i.size > maxRemembered {
		// The answer is too large to share: the requests that wait ask themselves.
		i.pieces = nil
		i.lead.Abandon()
		return
	}
	i.pieces = append(i.pieces, content)
}

// tell gives the answer to the requests that wait for it. If the model completed
// it, later requests with the same question get it for the endpoint's cache time,
// too. The waiting requests also get an incomplete answer: each of them would
// otherwise ask in turn and be cut in the same way.
func (i *invocation) tell(result *invoke.Result) {
	if i.lead == nil {
		return
	}
	served := &i.request.Targets[result.Served]
	now := time.Now()
	expires := now
	if result.FinishReason.Whole() {
		expires = now.Add(i.ttl)
	}
	said := result.Result
	if result.Estimated {
		said.Usage = providers.Usage{}
	}
	answer := &cache.Answer{
		Pieces: i.pieces, Result: said, Provider: served.Name, Model: served.Model,
		Given: now, Expires: expires,
	}
	if answer.Bytes() <= maxRemembered {
		i.lead.Answer(answer)
	}
}
