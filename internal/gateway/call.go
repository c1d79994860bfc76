package gateway

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/valyala/fastjson"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/prompt"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
)

// call is one request on its way through the gateway. It passes through phases, each a
// type that has all of the phase before it. Only a method of one phase returns the next,
// so what must come first stands in the signatures:
//
//	incoming    the request itself
//	holdings    its shares of memory, of calls in flight and of limits
//	evaluation  its context is bound: tables can decide        (bind)
//	answers     its ids are made: traces and answers are built (begin)
//
// A request for an endpoint goes on from its evaluation with a plan and an invocation.
//
// Calls are pooled. Their phases are parts of them and keep their buffers.
type call struct {
	incoming
	holdings
	evaluation evaluation
	answers    answers
}

// incoming is the request: who asks what, where and when. After the body is parsed it does
// not change, with one exception: the body is dropped while a model answers.
type incoming struct {
	w         http.ResponseWriter
	r         *http.Request
	gateway   *Gateway
	workspace *Workspace
	key       *principal
	route     *route
	pathID    string // the trace id, the model or the key in the path
	began     time.Time
	snapshot  *definition.Snapshot
	info      *requestInfo
	span      oteltrace.Span // of the request; nil: it is not traced
	body      *wire.Request
	writer    dialect.Writer // of the API that the route speaks; nil: it calls no endpoint

	// The members of the body that every route has.
	context, metadata, variables *fastjson.Value

	logCeiling definition.LogPolicy // the highest policy that the caller allows; Unset: any
}

// holdings are the resources of a request, which release gives back.
type holdings struct {
	*incoming
	reply    *trace.Reply                // for the request's idempotency key; nil: it has no key
	entered  bool                        // it is counted among the calls in flight
	meter    *meter                      // nil: no limit applies
	room     int64                       // of largeAnswers
	held     int64                       // of largeRequests
	sent     int                         // about the bytes of the messages for the provider; 0: unknown
	recorded int                         // about the bytes of the messages in the record
	reserve  func(bytes int) *wire.Error // hold, which the body keeps: made once
	out      []byte                      // the answer
}

// evaluation decides by the tables that a request asks, whose context is bound.
type evaluation struct {
	*holdings
	next     *answers // memory of the next phase
	binding  rules.Binding
	values   prompt.Values
	picked   []picked // for each known key
	tracing  int      // of the picked, those that make a trace: the others are counted on earlier ones
	unknown  []wire.MissingKey
	cached   int    // decisions that the cache had
	uncached int    // decisions that were looked up and not cached
	scratch  []byte // of a cache key

	asked      string        // the key of the called endpoint; empty: the request calls none
	weighing   bool          // hide the budgets that the call uses from tables: see asked.plan
	asksBudget bool          // a table asked for a hidden budget
	own        limit.Amounts // to add to budgets: the amounts that the call would set aside
}

// answers are the answers to a request, with their traces. Their ids are those of one
// decision, whose number of traces was known when it began.
type answers struct {
	*evaluation
	decision   trace.Decision // makes the ids of the traces
	decisionID trace.ID
	traces     int // whose ids were made
	hasher     *trace.Hasher
	evidence   evidence        // of the answer that is being built
	records    []*trace.Record // of the answers, until they are recorded
	exposures  exposures       // of the answers that are counted, or stand for others
	answered   int             // keys
	lastTrace  trace.ID        // of the answer that was built last
	unchanged  bool            // the caller has the answer: only its headers are sent
}

var calls = sync.Pool{New: func() any { return newCall() }}

func newCall() *call {
	c := new(call)
	c.link()
	c.reserve = c.hold
	c.evaluation.binding.SetGateway(&c.evaluation)
	return c
}

// link points each phase of the call to the phase before it.
func (c *call) link() {
	c.holdings.incoming = &c.incoming
	c.evaluation.holdings, c.evaluation.next = &c.holdings, &c.answers
	c.answers.evaluation = &c.evaluation
}

// keepBuffer is the largest buffer, in bytes, that a pooled call keeps.
const keepBuffer = 64 << 10

// release returns the call to the pool. No part of it may be used afterwards.
func (c *call) release() {
	c.unclaim()
	if pooled, ok := c.writer.(interface{ Release() }); ok {
		pooled.Release()
	}
	e, a := &c.evaluation, &c.answers
	if e.cached+e.uncached > 0 {
		e.countLookups()
	}
	c.leave()
	c.meter.settle()
	c.letGo(c.held)
	c.keepRoom(0)
	if c.body != nil {
		c.body.Release()
	}
	a.dropRecords()
	e.values.Reset()
	clear(e.unknown)
	clear(e.picked)
	a.evidence.reset()
	out, scratch := c.out[:0], e.scratch[:0]
	if cap(out) > keepBuffer {
		out = nil
	}
	if cap(scratch) > keepBuffer {
		scratch = nil
	}
	clear(a.exposures.counted)
	c.incoming = incoming{}
	c.holdings = holdings{reserve: c.reserve, out: out}
	*e = evaluation{binding: e.binding, values: e.values, unknown: e.unknown[:0], picked: e.picked[:0], scratch: scratch}
	*a = answers{
		records: a.records[:0], evidence: a.evidence,
		exposures: exposures{counted: a.exposures.counted[:0], entering: a.exposures.entering[:0]},
	}
	c.link()
	calls.Put(c)
}

// bind binds the caller's context to the data model. The time is in milliseconds, as the
// traces store it, so a proof that evaluates the tables again uses the same time. The
// result is a part of the call.
func (c *call) bind(context *fastjson.Value) (*evaluation, *wire.Error) {
	e := &c.evaluation
	model, now := c.snapshot.Model, c.began.Truncate(time.Millisecond)
	var err error
	if c.key.bound == nil {
		err = model.Bind(&e.binding, context, now)
	} else {
		c.context, err = c.key.bound.bind(model, &e.binding, context, now)
	}
	if err == nil {
		return e, nil
	}
	if refused, ok := errors.AsType[*rules.BindError](err); ok {
		err := wire.Errorf(wire.InvalidRequest, "context."+refused.Field, "%s", refused.Message)
		if refused.TargetingKeyMissing() {
			err.FlagCode = wire.FlagTargetingKeyMissing
		}
		return nil, err
	}
	return nil, wire.Errorf(wire.InvalidRequest, "context", "%v", err)
}
