package gateway

import (
	"github.com/cadenza-gateway/cadenza/internal/buffers"
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
	// freeRequest is the number of bytes that every request may hold: requests that hold no
	// more need no room and are never refused.
	freeRequest = 64 << 10
)

// copies returns the number of copies of a request's body that exist at a time, beside the
// body. A call has the parser's copy, whose views the messages are, and the record's. The
// copy for the provider is made after the body is dropped.
func (to *route) copies() int {
	if to.dialect != nil {
		return 2
	}
	return 1
}

// hold takes room for more bytes of the request, until letGo. A workspace may take seven
// eighths of all room.
func (h *holdings) hold(bytes int) *wire.Error {
	most := h.gateway.maxLargeRequests
	if !takeBoth(&h.workspace.Memory.largeRequests, &h.gateway.process.largeRequests, int64(bytes), h.held, most-most/8, most) {
		return noRoom("Large requests hold as much memory as they may. Send the request again, or a smaller one.")
	}
	h.held += int64(bytes)
	buffers.Collect(true)
	return nil
}

// holdAll changes the room of the request to the given bytes.
func (h *holdings) holdAll(bytes int) *wire.Error {
	more := int64(bytes) - h.held
	if more > 0 {
		return h.hold(int(more))
	}
	h.letGo(-more)
	return nil
}

// letGo gives bytes of the request's room back.
func (h *holdings) letGo(bytes int64) {
	if bytes == 0 {
		return
	}
	process := h.gateway.process
	giveBoth(&h.workspace.Memory.largeRequests, &process.largeRequests, bytes)
	h.held -= bytes
	buffers.Collect(false)
}

// holdMessages takes the room that a call's messages need beyond what the request holds,
// before the messages are copied. keep is set if the messages are views of the request.
func (h *holdings) holdMessages(messages []providers.Message, policy definition.LogPolicy, keep bool) *wire.Error {
	body, size := h.body.BodySize(), h.body.Size()
	if !keep {
		body, size = body+size, rendered(messages)
	}
	if h.held == 0 && size <= freeRequest/8 {
		return nil
	}
	for i := range messages {
		escaped, data := messages[i].EscapedSize()
		h.sent += escaped
		h.recorded += escaped - data
	}
	if policy != definition.LogContent {
		h.recorded = 0
	}
	if size += max(h.sent, body) + h.recorded; size <= freeRequest || int64(size) <= h.held {
		return nil
	}
	return h.holdAll(size)
}

// holdCall releases the request's body before the model is called, because models take
// minutes. It changes the request's room to what the call's messages and record need, and
// the values beside the answer: beside bytes, and their records. keep is set if the
// messages are views of the request. Then holdCall releases the body's bytes but not the
// parser's copy, which it counts.
func (a *answers) holdCall(messages []providers.Message, record *trace.Record, beside int, keep bool) *wire.Error {
	a.context, a.metadata, a.variables = nil, nil, nil
	a.values.Reset()
	size := beside + record.Size()
	for _, other := range a.records {
		size += other.Size()
	}
	if keep {
		size += a.body.Size()
		a.body.DropBody()
	} else {
		size += rendered(messages)
		a.body.Release()
		a.body = nil
	}
	if size += a.sent; size <= freeRequest {
		size = 0
	}
	return a.holdAll(size)
}

// rendered returns the bytes of the texts of messages that are not views of a request.
func rendered(messages []providers.Message) (size int) {
	for i := range messages {
		size += len(messages[i].Content)
	}
	return size
}
