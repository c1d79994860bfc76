package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
)

// DeliveryWait is the time that the last bytes of a broken response get to arrive before
// its connection is reset: about a round trip. Tests lengthen it.
var DeliveryWait = 250 * time.Millisecond

// abort cuts the connection of a response that broke off, so that no client and no proxy
// takes the response for complete. It does not return.
func abort(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.ProtoMajor == 3:
		// A reset of the stream discards bytes that have not arrived yet.
		waitForDelivery(r.Context())
	case r.ProtoMajor == 1 && r.ProtoMinor == 0:
		// Here the end of the connection is the end of the body, and net/http would
		// close the connection as if the response were complete.
		waitForDelivery(r.Context())
		reset(w)
	}
	// This panic makes the server cut the connection: over HTTP/1.1 the last chunk
	// is missing, over HTTP/2 and HTTP/3 the stream is reset.
	panic(http.ErrAbortHandler)
}

// waitForDelivery waits for DeliveryWait, or until the client has left.
func waitForDelivery(ctx context.Context) {
	timer := time.NewTimer(DeliveryWait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// reset closes a response's TCP connection with a reset. A connection of another
// kind, such as a unix socket, is only closed.
func reset(w http.ResponseWriter) {
	// The writers around it return a connection that hides its kind.
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
		// TLS must not send its close message first: that is a regular end.
		_ = inner.Close()
	}
	_ = conn.Close()
}

// errStreamPanicked replaces a panic that broke off a stream: its status is already
// sent, so the only way to report it is to cut the connection.
var errStreamPanicked = errors.New("a panic broke off a stream")

// endPanicked is deferred. It ends a stream that a panic broke off like one that
// failed. Before the stream's first content the panic goes on.
func (i *invocation) endPanicked(stream *dialect.Stream) {
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
