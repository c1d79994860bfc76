package gateway

import (
	"time"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// maxLargeRequests bounds all large requests together, in bytes: about 250 of the
	// largest default bodies, or 400 calls that send a model 200 KiB each. A
	// workspace may have half of it.
	maxLargeRequests = 256 << 20
	// freeRequest is what every request may hold in any case, in bytes: requests
	// that hold no more do not count and are never refused.
	freeRequest = 64 << 10
	// copiesOfMessages is the approximate number of copies of its messages that a
	// call has in memory: as they were rendered, and escaped as they are sent.
	copiesOfMessages = 3
	// retryLargeRequest is the Retry-After of a request without room.
	retryLargeRequest = time.Second
)

// hold takes room for so many more bytes that the request holds, until letGo.
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

// letGo gives back all room that the request holds.
func (c *call) letGo() {
	if c.held > 0 {
		c.workspace.Memory.largeRequests.give(c.held)
		c.gateway.process.largeRequests.give(c.held)
		c.held = 0
	}
}

// holdCall releases the request's body, which a call no longer needs: models take
// minutes. In its place it takes room for the call's messages and its record.
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
