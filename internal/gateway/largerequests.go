package gateway

import (
	"runtime/debug"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// DefaultMaxLargeRequests bounds all large requests and their copies together, in
	// bytes, where the configuration sets nothing else: six of the largest default bodies
	// to endpoints with history, or 280 calls that send a model 200 KiB each.
	DefaultMaxLargeRequests = 168 << 20
	// freeRequest is what every request may hold in any case, in bytes: requests
	// that hold no more do not count and are never refused.
	freeRequest = 64 << 10
	// largeGarbage is how many bytes large requests leave behind until they are collected
	// and given back to the system. By itself the collector waits until the heap has
	// doubled, which after a few of the largest is several times what they held.
	largeGarbage = 24 << 20
)

// copies returns how many copies of its body a request has at a time, beside the body.
// For a call that is the parser's, whose views its messages are, and the one in its
// record. When that is complete, the one for the provider takes the body's place.
func (to *route) copies() int {
	if to.dialect != nil {
		return 2
	}
	return 1
}

// hold takes room for so many more bytes that the request holds, until letGo. A workspace
// may have seven eighths of all room.
func (c *call) hold(bytes int) *wire.Error {
	most := c.gateway.maxLargeRequests
	if !takeBoth(&c.workspace.Memory.largeRequests, &c.gateway.process.largeRequests, int64(bytes), c.held, most-most/8, most) {
		return noRoom("Large requests hold as much memory as they may. Send the request again, or a smaller one.")
	}
	c.held += int64(bytes)
	return nil
}

// holdAll makes what the request holds that many bytes: it gives back what is more, and
// takes what is missing.
func (c *call) holdAll(bytes int) *wire.Error {
	more := int64(bytes) - c.held
	if more > 0 {
		return c.hold(int(more))
	}
	c.letGo(-more)
	return nil
}

// letGo gives back so many bytes of the room that the request holds.
func (c *call) letGo(bytes int64) {
	if bytes == 0 {
		return
	}
	process := c.gateway.process
	giveBoth(&c.workspace.Memory.largeRequests, &process.largeRequests, bytes)
	c.held -= bytes
	if left := process.garbage.Add(bytes); left >= largeGarbage && process.garbage.CompareAndSwap(left, 0) {
		go debug.FreeOSMemory()
	}
}

// holdMessages takes what is missing of the room that a call's messages need, before
// there are any copies of them. keep is set where they are views of the request.
func (c *call) holdMessages(messages []providers.Message, policy definition.LogPolicy, keep bool) *wire.Error {
	body, size := c.request.BodySize(), c.request.Size()
	if !keep {
		body, size = body+size, rendered(messages)
	}
	if c.held == 0 && size <= freeRequest/8 {
		return nil
	}
	for i := range messages {
		escaped, data := messages[i].EscapedSize()
		c.sent += escaped
		c.recorded += escaped - data
	}
	if policy != definition.LogContent {
		c.recorded = 0
	}
	if size += max(c.sent, body) + c.recorded; size <= freeRequest || int64(size) <= c.held {
		return nil
	}
	return c.holdAll(size)
}

// holdCall releases the request's body, which a call no longer needs: models take
// minutes. In its place it has room for the call's messages and its record, and for
// what goes beside the answer: so many bytes, and their records. keep is set where the
// messages are views of the request: then only its bytes are released, and the parser's
// copy of them is counted.
func (c *call) holdCall(messages []providers.Message, record *trace.Record, beside int, keep bool) *wire.Error {
	c.context, c.metadata, c.variables = nil, nil, nil
	c.values.Reset()
	size := beside + record.Size()
	for _, other := range c.records {
		size += other.Size()
	}
	if keep {
		size += c.request.Size()
		c.request.DropBody()
	} else {
		size += rendered(messages)
		c.request.Release()
		c.request = nil
	}
	if size += c.sent; size <= freeRequest {
		size = 0
	}
	return c.holdAll(size)
}

// rendered returns how many bytes the texts of messages take that are no views of a
// request.
func rendered(messages []providers.Message) (size int) {
	for i := range messages {
		size += len(messages[i].Content)
	}
	return size
}
