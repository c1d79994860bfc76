package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// deliveryWait is how long the last words of a response that broke off get to
// arrive before its connection is reset: about a round trip.
const deliveryWait = 250 * time.Millisecond

// abort cuts the connection of a response that broke off, so that no client,
// and no proxy in between, takes the response for complete. It does not return.
func abort(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.ProtoMajor == 3:
		// A reset of the stream discards what has not arrived yet.
		waitForDelivery(r.Context())
	case r.ProtoMajor == 1 && r.ProtoMinor == 0:
		// The body ends with the connection here, and net/http would close that
		// in good order.
		waitForDelivery(r.Context())
		reset(w)
	}
	// How the server is told to cut a connection: over HTTP/1.1 the last chunk
	// is missing, over HTTP/2 and HTTP/3 the stream is reset.
	panic(http.ErrAbortHandler)
}

// waitForDelivery waits, or returns sooner when the client has left.
func waitForDelivery(ctx context.Context) {
	timer := time.NewTimer(deliveryWait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// reset closes a response's TCP connection with a reset. Where there is no such
// connection, as over a unix socket, it only closes it.
func reset(w http.ResponseWriter) {
	// Other writers hand out a connection that hides its kind.
	hijacker, ok := innermost(w).(http.Hijacker)
	if !ok {
		return
	}
	conn, _, err := hijacker.Hijack()
	if err != nil {
		return
	}
	inner := conn
	for {
		outer, ok := inner.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		inner = outer.NetConn()
	}
	if tcp, ok := inner.(interface{ SetLinger(int) error }); ok {
		_ = tcp.SetLinger(0)
		// Before the TLS around it says goodbye, which is an end in good order.
		_ = inner.Close()
	}
	_ = conn.Close()
}

// errStreamPanicked is what a panic becomes that broke off a stream: there is no
// status to tell of it any more, only a connection to cut.
var errStreamPanicked = errors.New("a panic broke off a stream")

// endPanicked is deferred: it ends a stream that a panic broke off as any failure
// does. Before its first content the panic goes on.
func (i *invocation) endPanicked(stream *wire.EventStream) {
	if !stream.Started() {
		return
	}
	problem := recover()
	switch problem {
	case nil:
		return
	case http.ErrAbortHandler:
		panic(problem)
	}
	i.gateway.logPanic(i.route, problem)
	stream.Fail(panicked())
	panic(errStreamPanicked)
}
