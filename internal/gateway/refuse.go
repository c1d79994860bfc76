package gateway

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/wire"
)

const (
	// smallBody is the largest body, in bytes, that is read to its end although the
	// request is refused without it, so that the connection can be kept. Such a
	// body usually arrives together with the headers.
	smallBody = 16 << 10
	// smallBodyWait is how long such a body may take to arrive.
	smallBodyWait = 50 * time.Millisecond
	// lingerTimeout is how long a connection stays open after the answer, so that a
	// client can read why its request was refused. After that, data that the client
	// still sends resets the connection.
	lingerTimeout = 500 * time.Millisecond
)

// writeError answers with an error, at once.
//
// Over HTTP/1, net/http reads the rest of the request's body before it writes a
// byte, for up to a minute if the client doesn't send it. It does not do so if the
// connection ends with the answer. Ending the connection is also the only way to
// stop a client from sending an unwanted body, and to end the wait of a client that
// sent "Expect: 100-continue". HTTP/2 and HTTP/3 stop the request's stream instead.
func (to *route) writeError(w http.ResponseWriter, r *http.Request, o outcome) {
	// A request that is refused because the gateway is full loses its connection,
	// too.
	full := o.err.Code == wire.Overloaded || o.err.Code == wire.RateLimited && o.err.Limit == ""
	if r.ProtoMajor == 1 && (full || o.end == unread && !skipSmallBody(w, r)) {
		to.writeLastError(w, o.err)
		return
	}
	to.writeErrorOnly(w, o.err)
}

// writeLastError answers with an error, and ends the connection.
func (to *route) writeLastError(w http.ResponseWriter, err *wire.Error) {
	w.Header()["Connection"] = connectionClose
	to.writeErrorOnly(w, err)
	linger(w)
}

// writeErrorOnly answers with an error in the route's dialect.
func (to *route) writeErrorOnly(w http.ResponseWriter, err *wire.Error) {
	if to.requestID != "" {
		id := err.TraceID
		if id == "" {
			id = newRequestID()
		}
		w.Header()[to.requestID] = []string{id}
		told := *err
		told.RequestID = id
		err = &told
	}
	wire.WriteErrorBody(w, err, to.appendError(make([]byte, 0, 512), err))
}

// newRequestID returns an id for an error without a trace: a random one in the form of
// a UUID.
func newRequestID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func (to *route) appendError(dst []byte, err *wire.Error) []byte {
	if to.dialect == nil {
		return err.AppendJSON(dst)
	}
	return to.dialect.AppendError(dst, err)
}

var connectionClose = []string{"close"}

// skipSmallBody reads a small body that no handler needs, and reports whether it
// reached the end.
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

// linger bounds how long the rest of a body is read after the answer was sent, in
// place of the server's own timeout of a minute.
func linger(w http.ResponseWriter) {
	deadline := time.Now().Add(lingerTimeout)
	// When the handler returns, Caddy sets a deadline of its own that is not later
	// than this one. After a read that timed out it sets none, and its writer does
	// not set one for a handler either: so the server's own writer is asked, too.
	_ = http.NewResponseController(w).SetReadDeadline(deadline)
	_ = http.NewResponseController(innermost(w)).SetReadDeadline(deadline)
}

// innermost returns the server's own writer, without the writers around it.
func innermost(w http.ResponseWriter) http.ResponseWriter {
	for {
		outer, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = outer.Unwrap()
	}
}
