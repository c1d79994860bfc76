package gateway

import (
	"net/http"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/dialect/messages"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// countTokens answers how many tokens the messages and tools of a request's call would
// have, as an estimate. It calls no model and leaves no trace.
func (c *call) countTokens() outcome {
	q, err := c.parseCall()
	if err != nil {
		return refused(err)
	}
	p, err := q.plan()
	if err != nil {
		return refused(err)
	}
	parameters := &p.targets[0].Parameters
	h := c.w.Header()
	c.nameIgnored(q.brought.Ignored, q.brought.MoreIgnored)
	h[wire.HeaderUsage] = estimated
	h[wire.HeaderRevision] = []string{c.snapshot.Revision}
	h[c.route.requestID] = []string{newRequestID()}
	c.out = messages.AppendCount(c.out[:0], invoke.CountTokens(p.messages, parameters.Tools, parameters.Beside()...))
	c.deliver(http.StatusOK, c.out, time.Now())
	return outcome{end: answered}
}
