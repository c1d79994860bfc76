package gateway

import (
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
	// copiesOfTurns is the same for the messages of a caller: as they are sent, beside
	// the request that they are views of.
	copiesOfTurns = 1
)

// hold takes room for so many more bytes that the request holds, until letGo.
func (c *call) hold(bytes int) *wire.Error {
	if !takeBoth(&c.workspace.Memory.largeRequests, &c.gateway.process.largeRequests, int64(bytes), maxLargeRequests) {
		return noRoom("Large requests hold as much memory as they may. Send the request again, or a smaller one.")
	}
	c.held += int64(bytes)
	return nil
}

// letGo gives back all room that the request holds.
func (c *call) letGo() {
	if c.held > 0 {
		giveBoth(&c.workspace.Memory.largeRequests, &c.gateway.process.largeRequests, c.held)
		c.held = 0
	}
}

// holdCall releases the request's body, which a call no longer needs: models take
// minutes. In its place it takes room for the call's messages and its record, and for
// what goes beside the answer: so many bytes, and their records. keep is set where the
// messages are views of the request: then only its bytes are released, and the parser's
// copy of them is counted.
func (c *call) holdCall(messages []providers.Message, record *trace.Record, beside int, keep bool) *wire.Error {
	c.context, c.metadata, c.variables = nil, nil, nil
	c.values.Reset()
	size := beside
	if keep {
		size += c.request.Size()
		c.request.DropBody()
	} else {
		c.request.Release()
		c.request = nil
	}
	c.letGo()
	for _, other := range c.records {
		size += other.Size()
	}
	for i := range messages {
		if m := &messages[i]; keep {
			size += copiesOfTurns * m.Size()
		} else {
			size += copiesOfMessages * len(m.Content)
		}
	}
	if size += record.Size(); size <= freeRequest {
		return nil
	}
	return c.hold(size)
}
