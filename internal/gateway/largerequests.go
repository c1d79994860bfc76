package gateway

import (
	"time"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// maxLargeRequests bounds them all together, in bytes: some 250 of the largest
	// bodies, or 400 calls that send a model 200 KiB each. A workspace may have
	// half of it.
	maxLargeRequests = 256 << 20
	// freeRequest is what every request has in any case, in bytes: those that hold
	// no more never count, and are never refused.
	freeRequest = 64 << 10
	// copiesOfMessages is how often a call has its messages in memory, about: as
	// they were rendered, and as they are sent, escaped.
	copiesOfMessages = 3
	// retryLargeRequest is when there may be room again.
	retryLargeRequest = time.Second
)

// hold takes room for so many bytes more that the request holds, until it is
// released.
func (c *call) hold(bytes int) *wire.Error {
	most, own := int64(maxLargeRequests), &c.workspace.Memory.largeRequests
	if !own.take(int64(bytes), most/2) {
		return tooMuchHeld()
	}
	if !c.gateway.process.largeRequests.take(int64(bytes), most) {
		own.give(int64(bytes))
		return tooMuchHeld()
	}
	c.held += int64(bytes)
	return nil
}

func tooMuchHeld() *wire.Error {
	err := wire.Errorf(wire.Overloaded, "", "Large requests hold as much memory as they may. Send the request again, or a smaller one.")
	err.RetryAfter = retryLargeRequest
	return err
}

// letGo gives back all that the request holds.
func (c *call) letGo() {
	if c.held > 0 {
		c.workspace.Memory.largeRequests.give(c.held)
		c.gateway.process.largeRequests.give(c.held)
		c.held = 0
	}
}

// holdCall lets go of the request's body, of which a call needs nothing any
// more: models take minutes. In its place it holds what the call does.
func (c *call) holdCall(messages []providers.Message, record *trace.Record) *wire.Error {
	c.context, c.metadata, c.variables = nil, nil, nil
	c.values.Reset()
	c.request.Release()
	c.request = nil
	c.letGo()
	size := 0
	for i := range messages {
		size += copiesOfMessages * len(messages[i].Content)
	}
	if size += record.Size(); size <= freeRequest {
		return nil
	}
	return c.hold(size)
}
