package gateway

import (
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/dialect/responses"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/trace"
)

// Serve answers every request with a JSON object, which is an answer or an error. Only a
// browser that opens / gets a page. path is the path of the route. It differs from the
// request's path if a site serves the route on another path.
func (g *Gateway) Serve(w http.ResponseWriter, r *http.Request, path string) {
	began := time.Now()
	to, traceID := find(path)
	to = to.spoken(r.Header)
	info := g.describe(r, to)
	defer func() {
		problem := recover()
		switch {
		case problem == http.ErrAbortHandler && info.code == "" && info.call == nil:
			info.code = string(invoke.ClientGone) // during a decision
		case problem != nil && problem != http.ErrAbortHandler:
			info.code = wire.Internal.Name
		}
		g.metrics.observe(to, info, began)
		switch problem {
		case nil:
			return
		case http.ErrAbortHandler, errStreamPanicked:
			abort(w, r)
		}
		g.logPanic(to, problem)
		if r.ProtoMajor == 1 {
			// After a panic it is unknown how much of the body was read.
			to.writeLastError(w, to.asOFREP(panicked(), traceID))
			return
		}
		to.writeErrorOnly(w, to.asOFREP(panicked(), traceID))
	}()

	o := g.answer(w, r, to, traceID, began, info)
	switch {
	case o.err != nil:
		info.code = o.err.Name
	case info.call != nil:
		info.code = info.call.code // its caller has left
	}
	switch o.end {
	case unanswered, unread:
		g.countRefused(to, info, to.asOFREP(o.err, traceID))
		g.writeError(w, r, to, o)
	case cut:
		panic(http.ErrAbortHandler)
	}
}

// logPanic logs a panic while it is on the stack. It does not log the panic's value,
// which may hold a caller's data.
func (g *Gateway) logPanic(to *route, problem any) {
	stack := zap.Stack("stack")
	if p, ok := problem.(*invoke.Panic); ok {
		stack = zap.ByteString("stack", p.Stack) // of the goroutine that panicked
	}
	g.logger.Error("a request panicked", zap.String("route", to.name), stack)
}

func panicked() *wire.Error {
	return wire.Errorf(wire.Internal, "", "The gateway failed. The operator finds the reason in its log.")
}

// ending is the state of a response.
type ending uint8

const (
	underway   ending = iota // the handler goes on
	unanswered               // nothing was written: the error is still to be written
	unread                   // as unanswered, and the request's body was not read completely
	answered                 // the response is complete
	cut                      // the response broke off: the connection must be cut
)

// outcome is the result of a request.
type outcome struct {
	err *wire.Error // nil: the request succeeded, or its caller has left
	end ending
}

// refused returns the outcome of a request that fails before anything was written.
func refused(err *wire.Error) outcome { return outcome{err, unanswered} }

// answer checks path, method, key, limits and body in this order, so that an
// unauthenticated request causes no work.
func (g *Gateway) answer(w http.ResponseWriter, r *http.Request, to *route, traceID string, began time.Time, info *requestInfo) outcome {
	if to.index == 0 && isVisitAtRoot(r) {
		writeWelcome(w, r)
		return outcome{end: answered}
	}
	if to.index == 0 {
		return outcome{wire.Errorf(wire.NotFound, "", "There is no route %s. The routes are %s.", printable(r.URL.Path), documented()), unread}
	}
	if pages := g.keys.pages.Load(); pages != nil && pages.share(w, r, to) {
		return outcome{end: answered}
	}
	if r.Method != to.method {
		if to.dialect == responses.Dialect && asksWebSocket(r) {
			err := wire.Errorf(wire.NoWebSocket, "", "There are no WebSockets here. Send %s requests, with stream: true for events.", to.method)
			err.Allow = to.method
			return outcome{err, unread}
		}
		err := wire.Errorf(wire.MethodNotAllowed, "", "This route takes %s.", to.method)
		err.Allow = to.method
		return outcome{err, unread}
	}
	if to.stream != nil {
		return to.stream(g, w, r, began, info)
	}
	token, sent, ok := to.token(r.Header)
	if !ok {
		return outcome{wire.Unauthorized(sent), unread}
	}
	if err := g.notStarted(r.Context()); err != nil {
		return outcome{err, unread}
	}
	key := g.keys.authenticate(token, began)
	if key == nil {
		return outcome{wire.Unauthorized(true), unread}
	}

	info.identify(key)
	if key.Role != RoleNone || key.Kind == KindClient || len(key.Origins) > 0 {
		if err := key.opens(to, r.Header["Origin"]); err != nil {
			return outcome{err, unread}
		}
	}
	if err := g.turnedAway(r, to, key); err != nil {
		return outcome{err, unread}
	}

	c := calls.Get().(*call)
	defer c.release()
	c.w, c.r, c.gateway, c.key, c.workspace, c.route, c.pathID, c.began = w, r, g, key, key.workspace, to, traceID, began
	c.body = wire.AcquireRequest()
	// The gateway may stop while the request still runs.
	store, memory := c.workspace.Store.leases, c.workspace.Memory.leases
	store.acquire()
	memory.acquire()
	defer memory.release()
	defer store.release()
	c.info = info
	c.findSpan()
	if err := c.admitEarly(); err != nil {
		return outcome{err, unread}
	}
	if err := c.readLogCeiling(); err != nil {
		return outcome{err, unread}
	}
	if to.method == http.MethodPost {
		if err := c.body.ReadBody(w, r, to.bodyLimit(c.workspace), c.workspace.BodyTimeout, to.copies(), c.reserve); err != nil {
			return outcome{err, unread}
		}
	}
	c.body.SetMetadataLimit(c.workspace.MaxMetadataSize)
	if c.snapshot = c.workspace.Source.Snapshot(); c.snapshot.Awaited {
		return refused(noDefinitions())
	}
	if key.Kind == KindClient {
		c.snapshot = c.snapshot.ForClients()
		c.body.SetContextSecret(key.contextSecret, began)
	}

	return to.serve(c)
}

// awaitedRetry is when a request may come again that found no definitions yet.
const awaitedRetry = 5 * time.Second

// noDefinitions returns the error of a workspace whose source has given no definitions yet.
func noDefinitions() *wire.Error {
	err := wire.Errorf(wire.Overloaded, "", "The gateway waits for its definitions. Try again.")
	err.RetryAfter = awaitedRetry
	return err
}

// asksWebSocket reports whether a request asks for a WebSocket, as agents do before their
// first request. By the status 426 Codex knows at once that it has to use POST.
func asksWebSocket(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// maxCounted is the size of an answer, in bytes, up to which net/http itself finds
// its length. It sends a longer one in chunks, which costs more.
const maxCounted = 2048

// deliver sends a whole answer. now is the present time. It panics with
// http.ErrAbortHandler if the client does not read all of the answer.
func (in *incoming) deliver(status int, body []byte, now time.Time) {
	h := in.w.Header()
	h["Content-Type"] = contentTypeJSON
	h["Cache-Control"] = cacheControlNoStore
	if len(body) > maxCounted {
		// With its length, clients and proxies notice an answer that was cut.
		in.info.length[0] = strconv.Itoa(len(body))
		h["Content-Length"] = in.info.length[:]
	}
	in.w.WriteHeader(status)
	err := wire.WriteBody(in.w, body, now)
	if err == nil {
		return
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		in.workspace.Logger.Debug("a slow caller was cut off",
			zap.String("route", in.route.name), zap.String("api_key", in.key.name), zap.Int("bytes", len(body)))
	}
	// The client left, or was cut off. Without the panic, an incomplete answer over
	// HTTP/3 would end as if it were complete.
	panic(http.ErrAbortHandler)
}

// All answers share these header values: no code outside a handler changes them in
// place.
var (
	contentTypeJSON     = []string{"application/json"}
	cacheControlNoStore = []string{"no-store"}
)

// printable shortens a caller's text to 128 bytes, for an error message.
func printable(text string) string {
	const limit = 128
	if len(text) > limit {
		text = text[:limit] + "…"
	}
	return text
}

// setHeaders sets the headers of the definitions' revision and, unless they are zero, of
// the answer's only trace and of the decision that the answer names. Both ids share one
// allocation.
func (a *answers) setHeaders(id, decision trace.ID) {
	h := a.w.Header()
	a.info.revision[0] = a.snapshot.Revision
	h[wire.HeaderRevision] = a.info.revision[:]
	var buffer [2 * wire.TraceIDLength]byte
	text := buffer[:0]
	if !id.IsZero() {
		text = id.AppendTo(text)
	}
	of := len(text)
	if !decision.IsZero() {
		text = decision.AppendTo(text)
	}
	ids := string(text)
	if of > 0 {
		a.info.traceID[0] = ids[:of]
		a.nameTrace(h)
	}
	if len(ids) > of {
		a.info.decisionID[0] = ids[of:]
		h[wire.HeaderDecisionID] = a.info.decisionID[:]
	}
}

// forgetHeaders deletes the headers that setHeaders and the cache have set, for a request
// that is refused after all.
func (in *incoming) forgetHeaders() {
	in.info.traceID[0], in.info.decisionID[0] = "", ""
	h := in.w.Header()
	for _, name := range [...]string{wire.HeaderTraceID, wire.HeaderDecisionID, wire.HeaderRevision, wire.HeaderCacheStatus, in.route.requestID} {
		delete(h, name)
	}
}

// nameTrace sets the headers of the answer's only trace.
func (in *incoming) nameTrace(h http.Header) {
	h[wire.HeaderTraceID] = in.info.traceID[:]
	if in.route.requestID != "" {
		h[in.route.requestID] = in.info.traceID[:]
	}
}
