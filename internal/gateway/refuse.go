package gateway

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
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
	// lingerTimeout is how long a connection stays open after the answer where the
	// rest of the body is not read, so that a client can read why its request was
	// refused. After that, data that the client still sends resets the connection.
	lingerTimeout = 500 * time.Millisecond

	// The bounds of dropBody: the bytes of a body, the time for all of them, the time for
	// each piece, and the number of connections. A stranger is a caller without a valid
	// key; strangers have half of the connections.
	maxDrop                   = 16 << 20
	maxStrangerDrop           = 10 << 20
	dropTimeout               = 5 * time.Second
	strangerDropTimeout       = 2 * time.Second
	dropIdle                  = time.Second
	maxDrops            int64 = 256
)

// writeError answers with an error, at once.
//
// Over HTTP/1, net/http reads the rest of the request's body before it writes a
// byte, for up to a minute if the client doesn't send it. It does not do so if the
// connection ends with the answer. Ending the connection is also the only way to
// stop a client from sending an unwanted body, and to end the wait of a client that
// sent "Expect: 100-continue". HTTP/2 and HTTP/3 stop the request's stream instead.
//
// Many clients send a body to its end before they read. If the connection were closed
// while data arrives, a reset would destroy the answer. So writeError sends the answer at
// once, and reads and drops the rest of the body, within bounds.
//
// A caller that is refused because the gateway is full waits for its answer: see slow.
func (g *Gateway) writeError(w http.ResponseWriter, r *http.Request, to *route, o outcome) {
	rest, full := false, false // more of the body is to come; the gateway is full
	if r.ProtoMajor == 1 {
		rest = o.end == unread && !skipSmallBody(w, r)
		full = o.err.Code == wire.Overloaded || o.err.Code == wire.RateLimited && o.err.Limit == ""
	}
	if full && !g.scarce() {
		g.slow(r.Context())
	}
	// If connections are scarce, the gateway closes idle ones for new callers, perhaps
	// at the moment when an old caller sends a request.
	if rest || full && g.scarce() {
		w.Header()["Connection"] = connectionClose
	}
	to.writeErrorOnly(w, o.err)
	if rest {
		linger(w)
		stranger := o.err.Code == wire.InvalidAPIKey || o.err.Code == wire.NotFound || o.err.Code == wire.MethodNotAllowed || o.err.Code == wire.NoWebSocket
		dropBody(w, r, stranger)
	}
}

// dropping are the connections whose bodies are being dropped.
var dropping atomic.Int64

// dropBody sends the answer, and reads the rest of the body until it ends or reaches a
// bound. Then the server closes the connection as after any early answer: it ends its own
// side and waits for lingerTimeout.
func dropBody(w http.ResponseWriter, r *http.Request, stranger bool) {
	if r.ContentLength == 0 || r.Header["Expect"] != nil {
		return // reading would ask for the body
	}
	left, end, most := int64(maxDrop), time.Now().Add(dropTimeout), maxDrops
	if stranger {
		left, end, most = maxStrangerDrop, time.Now().Add(strangerDropTimeout), maxDrops/2
	}
	defer dropping.Add(-1)
	if dropping.Add(1) > most || http.NewResponseController(w).Flush() != nil {
		return
	}
	for ; left > 0; left -= dropPiece {
		idle := time.Now().Add(dropIdle)
		if idle.After(end) {
			idle = end
		}
		readUntil(w, idle)
		if _, err := io.CopyN(io.Discard, r.Body, dropPiece); err != nil {
			return
		}
	}
	linger(w) // the body is longer
}

// dropPiece is the number of bytes that dropBody reads between two checks of the time.
const dropPiece = 128 << 10

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
		withID := *err
		withID.RequestID = id
		err = &withID
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
	switch {
	case to.legacy:
		return err.AppendDetailed(dst)
	case to.dialect == nil:
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
	readUntil(w, time.Now().Add(lingerTimeout))
}

// readUntil sets the deadline of all further reads of the request.
func readUntil(w http.ResponseWriter, deadline time.Time) {
	// When the handler returns, Caddy sets a deadline that is not later than this one.
	// After a read that timed out it sets no deadline, and then its writer does not set
	// one for a handler either: so readUntil also uses the server's own writer.
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
