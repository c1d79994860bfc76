package gateway

import (
	"io"
	"net/http"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/wire"
)

const (
	// smallBody is the size of a body, in bytes, that is read to its end where
	// the request is refused without it, so that the connection can be kept.
	// What is sent with the headers is on its way with them.
	smallBody = 16 << 10
	// smallBodyWait is how long such a body may take to arrive.
	smallBodyWait = 50 * time.Millisecond
	// lingerTimeout is how long a connection stays open for a client to read
	// why its request was refused, before what it still sends resets it.
	lingerTimeout = 500 * time.Millisecond
)

// writeError answers with an error, at once.
//
// Before it writes a byte over HTTP/1, net/http reads what is left of the
// request's body, for a minute where the client doesn't send it. It doesn't
// where the connection ends with the answer, which is also the only way not to
// be sent what nobody wants, or to end the wait of a client that expects to be
// told to continue. The other protocols have streams, and stop them.
func writeError(w http.ResponseWriter, r *http.Request, o outcome) {
	// Who is turned away for want of room keeps no connection either.
	full := o.err.Code == wire.Overloaded || o.err.Code == wire.RateLimited
	if r.ProtoMajor == 1 && (full || o.end == unread && !skipSmallBody(w, r)) {
		writeLastError(w, o.err)
		return
	}
	wire.WriteError(w, o.err)
}

// writeLastError answers with an error, and ends the connection.
func writeLastError(w http.ResponseWriter, err *wire.Error) {
	w.Header()["Connection"] = connectionClose
	wire.WriteError(w, err)
	linger(w)
}

var connectionClose = []string{"close"}

// skipSmallBody reads a small body that nobody wants, and reports whether it
// came to its end.
func skipSmallBody(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case r.ContentLength == 0:
		return true
	case r.ContentLength < 0 || r.ContentLength > smallBody || r.Header["Expect"] != nil:
		return false
	}
	// The end of the body lifts the deadline: see Request.ReadBody.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(smallBodyWait))
	_, err := io.Copy(io.Discard, r.Body)
	return err == nil
}

// linger bounds how long what is left of a body is read once the answer went
// out, in place of the server's own timeout of a minute.
func linger(w http.ResponseWriter) {
	deadline := time.Now().Add(lingerTimeout)
	// Caddy sets a deadline of its own when the handler returns, and none later
	// than this one. Where a read has timed out it leaves the connection as it
	// is, but won't change it for a handler either.
	_ = http.NewResponseController(w).SetReadDeadline(deadline)
	_ = http.NewResponseController(innermost(w)).SetReadDeadline(deadline)
}

// innermost is the server's own writer, without those around it.
func innermost(w http.ResponseWriter) http.ResponseWriter {
	for {
		outer, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = outer.Unwrap()
	}
}
