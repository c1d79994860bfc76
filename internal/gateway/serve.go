package gateway

import (
	"errors"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fastjson"
	oteltrace "go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/prompt"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
)

// call is one request on its way through the gateway, with the buffers that
// it uses. Calls are pooled.
type call struct {
	w         http.ResponseWriter
	r         *http.Request
	gateway   *Gateway
	workspace *Workspace
	key       *principal
	route     *route
	pathID    string // what the path names: a trace, or a model
	began     time.Time
	snapshot  *definition.Snapshot
	request   *wire.Request
	info      *requestInfo
	span      oteltrace.Span // of the request; nil: it is not traced
	reply     *trace.Reply   // to be kept; nil without an idempotency key
	writer    dialect.Writer
	answer    dialect.Answer // of an endpoint, as the writer gets it

	asked string // the key of the endpoint that the request calls; empty: none

	// The members of the request's body that every route has.
	context, metadata, variables *fastjson.Value

	logCeiling definition.LogPolicy // the most that the caller allows; Unset: anything
	entered    bool                 // counted among the calls in flight
	meter      *meter               // nil: no limit applies

	weighing   bool          // tables are not told of the budgets that the call uses
	asksBudget bool          // one would have liked to know
	own        limit.Amounts // that the call would set aside, as far as tables are told

	decision   trace.Decision // makes the ids of the answers' traces
	decisionID trace.ID
	traces     int // whose ids were made

	evidence evidence // of the answer that is being built
	hasher   *trace.Hasher

	picked    []picked        // for each known key
	answered  int             // keys
	cached    int             // decisions that the cache had
	uncached  int             // decisions that were looked up and not cached
	records   []*trace.Record // of the answers, until they are recorded
	binding   rules.Binding
	values    prompt.Values
	room      int64                       // of largeAnswers, until the call is released
	held      int64                       // of largeRequests
	sent      int                         // about the size of the messages as they are sent; 0: not known
	recorded  int                         // and as they are recorded
	reserve   func(bytes int) *wire.Error // hold, which the request keeps: made once
	out       []byte
	scratch   []byte   // of a cache key
	lastTrace trace.ID // of the answer that was built last
	unknown   []wire.MissingKey
}

var calls = sync.Pool{New: func() any {
	c := new(call)
	c.reserve = c.hold
	c.binding.SetGateway(c)
	return c
}}

// keepBuffer is the largest buffer, in bytes, that a pooled call keeps.
const keepBuffer = 64 << 10

// release returns the call to the pool. No part of it may be used afterwards.
func (c *call) release() {
	c.unclaim()
	if pooled, ok := c.writer.(interface{ Release() }); ok {
		pooled.Release()
	}
	if c.cached+c.uncached > 0 {
		c.countLookups()
	}
	c.leave()
	c.meter.settle()
	c.letGo(c.held)
	c.keepRoom(0)
	if c.request != nil {
		c.request.Release()
	}
	c.dropRecords()
	c.values.Reset()
	clear(c.unknown)
	clear(c.picked)
	c.evidence.reset()
	out, scratch := c.out[:0], c.scratch[:0]
	if cap(out) > keepBuffer {
		out = nil
	}
	if cap(scratch) > keepBuffer {
		scratch = nil
	}
	*c = call{
		binding: c.binding, values: c.values, records: c.records[:0],
		evidence: c.evidence, reserve: c.reserve,
		unknown: c.unknown[:0], picked: c.picked[:0], out: out, scratch: scratch,
	}
	calls.Put(c)
}

// Serve answers every request, with an answer or with an error, both JSON objects. Only a
// browser that asks for / gets a page.
// path is the path of the route: the request's own path, unless a site serves the
// route on another.
func (g *Gateway) Serve(w http.ResponseWriter, r *http.Request, path string) {
	began := time.Now()
	to, traceID := find(path)
	to = to.spoken(r.Header)
	info := g.describe(r, to)
	defer func() {
		problem := recover()
		switch {
		case problem == http.ErrAbortHandler && info.code == "" && info.call == nil:
			info.code = string(invoke.ClientGone) // while it was decided
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
			to.writeLastError(w, panicked())
			return
		}
		to.writeErrorOnly(w, panicked())
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
		g.countRefused(to, info, o.err)
		g.writeError(w, r, to, o, info.refusal)
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
	unread                   // as unanswered, and the request's body is not read to its end
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
	if to.serve == nil && isBrowserAtRoot(r) {
		writeWelcome(w, r)
		return outcome{end: answered}
	}
	if to.serve == nil {
		return outcome{wire.Errorf(wire.NotFound, "", "There is no route %s. The routes are %s.", printable(r.URL.Path), documented()), unread}
	}
	if r.Method != to.method {
		err := wire.Errorf(wire.MethodNotAllowed, "", "This route takes %s.", to.method)
		err.Allow = to.method
		return outcome{err, unread}
	}
	token, sent, ok := to.token(r.Header)
	if !ok {
		return outcome{wire.Unauthorized(sent), unread}
	}
	if !g.waitStarted(r.Context()) {
		err := wire.Errorf(wire.Overloaded, "", "The gateway is starting. Try again.")
		err.RetryAfter = startTimeout
		return outcome{err, unread}
	}
	key := g.keys.authenticate(token, began)
	if key == nil {
		return outcome{wire.Unauthorized(true), unread}
	}

	info.identify(key)
	if err := g.turnedAway(r, to, key, info); err != nil {
		return outcome{err, unread}
	}

	c := calls.Get().(*call)
	defer c.release()
	c.w, c.r, c.gateway, c.key, c.workspace, c.route, c.pathID, c.began = w, r, g, key, key.workspace, to, traceID, began
	c.request = wire.AcquireRequest()
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
		if err := c.request.ReadBody(w, r, to.bodyLimit(c.workspace), c.workspace.BodyTimeout, to.copies(), c.reserve); err != nil {
			return outcome{err, unread}
		}
	}
	c.request.SetMetadataLimit(c.workspace.MaxMetadataSize)
	c.snapshot = c.workspace.Source.Snapshot()

	return to.serve(c)
}

// bind binds the caller's context to the data model, at the instant that the traces
// have: a proof that evaluates their tables again sees the same one.
func (c *call) bind(context *fastjson.Value) *wire.Error {
	model, now := c.snapshot.Model, c.began.Truncate(time.Millisecond)
	var err error
	if c.key.bound == nil {
		err = model.Bind(&c.binding, context, now)
	} else {
		c.context, err = c.key.bound.bind(model, &c.binding, context, now)
	}
	if err == nil {
		return nil
	}
	if refused, ok := errors.AsType[*rules.BindError](err); ok {
		return wire.Errorf(wire.InvalidRequest, "context."+refused.Field, "%s", refused.Message)
	}
	return wire.Errorf(wire.InvalidRequest, "context", "%v", err)
}

// write sends a complete answer, and keeps it if the request has an idempotency key.
func (c *call) write(body []byte) {
	c.keepReply(http.StatusOK, "", body)
	c.deliver(http.StatusOK, body, time.Now())
}

// maxCounted is the size of an answer, in bytes, up to which net/http itself finds
// its length. It sends a longer one in chunks, which costs more.
const maxCounted = 2048

// deliver sends a whole answer at the time now. It panics with http.ErrAbortHandler
// if the client does not take all of it.
func (c *call) deliver(status int, body []byte, now time.Time) {
	h := c.w.Header()
	h["Content-Type"] = contentTypeJSON
	h["Cache-Control"] = cacheControlNoStore
	if len(body) > maxCounted {
		// With its length, clients and proxies notice an answer that was cut.
		c.info.length[0] = strconv.Itoa(len(body))
		h["Content-Length"] = c.info.length[:]
	}
	c.w.WriteHeader(status)
	err := wire.WriteBody(c.w, body, now)
	if err == nil {
		return
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.workspace.Logger.Debug("a slow caller was cut off",
			zap.String("route", c.route.name), zap.String("api_key", c.key.name), zap.Int("bytes", len(body)))
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

// printable returns a caller's text as an error message may quote it: its first 128
// bytes.
func printable(text string) string {
	const limit = 128
	if len(text) > limit {
		text = text[:limit] + "…"
	}
	return text
}

// setHeaders sets the headers of the definitions' revision and of the decision and,
// if the answer has exactly one trace, the header of its id. Both ids share one
// allocation.
func (c *call) setHeaders(id trace.ID) {
	h := c.w.Header()
	c.info.revision[0] = c.snapshot.Revision
	h[wire.HeaderRevision] = c.info.revision[:]
	var buffer [2 * wire.TraceIDLength]byte
	text := c.decisionID.AppendTo(buffer[:0])
	if !id.IsZero() {
		text = id.AppendTo(text)
	}
	ids := string(text)
	c.info.decisionID[0] = ids[:wire.TraceIDLength]
	h[wire.HeaderDecisionID] = c.info.decisionID[:]
	if !id.IsZero() {
		c.info.traceID[0] = ids[wire.TraceIDLength:]
		c.nameTrace(h)
	}
}

// forgetHeaders takes back what setHeaders and the cache have said of an answer that
// is refused after all.
func (c *call) forgetHeaders() {
	c.info.traceID[0], c.info.decisionID[0] = "", ""
	h := c.w.Header()
	for _, name := range [...]string{wire.HeaderTraceID, wire.HeaderDecisionID, wire.HeaderRevision, wire.HeaderCacheStatus, c.route.requestID} {
		delete(h, name)
	}
}

// nameTrace sets the headers of the answer's only trace.
func (c *call) nameTrace(h http.Header) {
	h[wire.HeaderTraceID] = c.info.traceID[:]
	if c.route.requestID != "" {
		h[c.route.requestID] = c.info.traceID[:]
	}
}
