package gateway

import (
	"math"
	"net/http"
	"strconv"
	"strings"

	oteltrace "go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
)

// requestInfo holds the values of a request's placeholders. The access log reads
// them after the handler has returned, when the call is already back in its pool. So
// it has what the call knows, and works texts out of it only when they are asked for.
type requestInfo struct {
	workspace, key string
	route          string
	code           string // of the error, or of a call whose caller has left; empty: the request succeeded
	// The values of the headers of the same names, one value each.
	traceID, decisionID, revision, length [1]string

	// Of an answer to keys: what was decided for the only key, or for each of several.
	only    picked
	several []picked
	cache   string // hit or miss; empty: no cache was asked

	endpoint *definition.Endpoint // that was asked for; nil: none
	call     *callInfo            // nil: it did not end yet

	refusal *refusal               // by a ceiling; nil: by none
	owner   *Workspace             // nil: the request has no valid key
	asked   *definition.Definition // that the request is counted for; nil: none
	counted *definitionSeries      // its metrics when it was asked for, among those of served
	served  *servedSeries
}

// callInfo is what the placeholders of a call say beside its key.
type callInfo struct {
	variant, arm, row            string
	endpointVariant, endpointRow string
	provider, model              string // nothing was asked where both are empty
	finish, code                 string // the code as its trace has it
	attempts                     int
	// What all attempts used, also those that failed or lost a hedge.
	prompt, completion int64
	trace.UsageDetails
	estimated bool
	cost      float64
}

// describe makes a request's placeholders available.
func (g *Gateway) describe(r *http.Request, to *route) *requestInfo {
	info := &requestInfo{route: to.name}
	if g.describeTo != nil {
		g.describeTo(r, info.placeholder)
	}
	return info
}

// identify notes whose request it is.
func (i *requestInfo) identify(key *principal) {
	i.workspace, i.key, i.owner = key.workspace.Name, key.name, key.workspace
	i.served = i.owner.countedBy()
	i.counted = i.served.none
}

// findSpan finds the span that the request has where it is traced.
func (c *call) findSpan() {
	if span := oteltrace.SpanFromContext(c.r.Context()); span.SpanContext().IsValid() {
		c.span = span
	}
}

// describeAnswers notes what was decided for the request's keys, for its placeholders
// and its trace.
func (c *call) describeAnswers() {
	c.traceDecision(nil)
	switch status := c.cacheStatus(); {
	case status == nil:
	case &status[0] == &cacheHit[0]:
		c.info.cache = "hit"
	default:
		c.info.cache = "miss"
	}
	switch {
	case len(c.picked) == 1:
		c.info.only = c.picked[0]
	case c.gateway.describeTo != nil: // else it is in vain
		c.info.several = append(c.info.several, c.picked...)
	}
}

// dollars returns a sum of costs without what adding up leaves behind its figures: 0.3
// for 0.30000000000000004.
func dollars(sum float64) float64 { return math.Round(sum*1e12) / 1e12 }

// describeEnd notes how a call has ended, for the request's placeholders and its trace.
// The record's attempts are complete.
func (i *invocation) describeEnd(result *invoke.Result) {
	i.traceEnd(result)
	record, told := i.record, &i.told
	*told = callInfo{
		variant: record.Variant, arm: record.Arm, row: record.Row,
		endpointVariant: record.EndpointVariant, endpointRow: record.EndpointRow,
		finish: record.FinishReason, code: record.Code, attempts: len(record.Attempts),
		cost: dollars(record.Cost),
	}
	switch {
	case result.Served >= 0:
		// By its configured name: what a provider says of its model is any text.
		told.provider, told.model = i.request.Targets[result.Served].Name, i.request.Targets[result.Served].Model
	case told.attempts > 0 || record.Cached:
		told.provider, told.model = record.Provider, record.Model
	}
	for n := range record.Attempts {
		a := &record.Attempts[n]
		told.prompt += a.PromptTokens
		told.completion += a.CompletionTokens
		told.CachedTokens += a.CachedTokens
		told.CacheWriteTokens += a.CacheWriteTokens
		told.ReasoningTokens += a.ReasoningTokens
		told.estimated = told.estimated || a.Estimated
	}
	switch {
	case record.Cached:
		i.info.cache = "hit"
	case i.ttl > 0:
		i.info.cache = "miss"
	}
	i.info.call = told
}

// placeholder returns the value of a placeholder, and whether there is one of this name.
func (i *requestInfo) placeholder(name string) (any, bool) {
	if name == "http.auth.user.id" {
		return i.key, i.owner != nil
	}
	own, found := strings.CutPrefix(name, "cadenza")
	if !found {
		return nil, false
	}
	switch own {
	case "":
		return i, true
	case ".workspace":
		return i.workspace, true
	case ".route":
		return i.route, true
	case ".code":
		return i.code, true
	case ".trace_id":
		return i.traceID[0], true
	case ".decision_id":
		return i.decisionID[0], true
	case ".revision":
		return i.revision[0], true
	case ".cache":
		return i.cache, true
	case ".key":
		if i.endpoint != nil {
			return i.endpoint.Key, true
		}
		return i.all((*picked).key), true
	case ".kind":
		return i.kind(), true
	}
	call := i.call
	if call == nil {
		call = new(callInfo)
	}
	switch own {
	case ".variant":
		return i.of(call.variant, (*picked).variant), true
	case ".arm":
		return i.of(call.arm, (*picked).arm), true
	case ".row":
		return i.of(call.row, (*picked).row), true
	case ".endpoint_variant":
		return call.endpointVariant, true
	case ".endpoint_row":
		return call.endpointRow, true
	case ".provider":
		return call.provider, true
	case ".model":
		return call.model, true
	case ".attempts":
		return call.attempts, true
	case ".finish_reason":
		return call.finish, true
	case ".tokens.prompt":
		return call.prompt, true
	case ".tokens.completion":
		return call.completion, true
	case ".tokens.total":
		return call.prompt + call.completion, true
	case ".tokens.cached":
		return call.CachedTokens, true
	case ".tokens.cache_write":
		return call.CacheWriteTokens, true
	case ".tokens.reasoning":
		return call.ReasoningTokens, true
	case ".tokens.estimated":
		return call.estimated, true
	case ".cost":
		return call.cost, true
	}
	return nil, false
}

// of returns the value of a call or, where keys were answered, that of the keys.
func (i *requestInfo) of(call string, value func(*picked) string) string {
	if i.endpoint != nil {
		return call
	}
	return i.all(value)
}

// maxListed is how many keys of one request a placeholder lists.
const maxListed = 20

// all returns a value of each key, in the order of the answer and separated by commas.
// Of more than maxListed it counts the others: a,b,…,t,+3.
func (i *requestInfo) all(value func(*picked) string) string {
	switch {
	case i.several == nil && i.only.definition() == nil:
		return ""
	case i.several == nil:
		return value(&i.only)
	}
	list := make([]string, 0, maxListed+1)
	for n := range i.several {
		if n == maxListed {
			list = append(list, "+"+strconv.Itoa(len(i.several)-n))
			break
		}
		list = append(list, value(&i.several[n]))
	}
	return strings.Join(list, ",")
}

// kind returns the kind of the keys, once where all are of one.
func (i *requestInfo) kind() string {
	if i.endpoint != nil {
		return trace.KindEndpoint.String()
	}
	for n := range i.several {
		if first := i.several[0].kind(); i.several[n].kind() != first {
			return i.all((*picked).kind)
		}
	}
	if len(i.several) > 0 {
		return i.several[0].kind()
	}
	return i.all((*picked).kind)
}

// MarshalLogObject writes all that is known of the request, and no empty member: the
// placeholder {cadenza} is one field of an access log with all others in it.
func (i *requestInfo) MarshalLogObject(to zapcore.ObjectEncoder) error {
	text := func(name, value string) {
		if value != "" {
			to.AddString(name, value)
		}
	}
	text("workspace", i.workspace)
	text("api_key", i.key)
	text("route", i.route)
	text("code", i.code)
	for _, name := range [...]string{"key", "kind", "variant", "arm", "row", "cache", "trace_id", "decision_id", "revision"} {
		value, _ := i.placeholder("cadenza." + name)
		text(name, value.(string))
	}
	call := i.call
	if call == nil {
		return nil
	}
	text("endpoint_variant", call.endpointVariant)
	text("endpoint_row", call.endpointRow)
	text("provider", call.provider)
	text("model", call.model)
	text("finish_reason", call.finish)
	to.AddInt("attempts", call.attempts)
	to.AddFloat64("cost", call.cost)
	return to.AddObject("tokens", zapcore.ObjectMarshalerFunc(func(to zapcore.ObjectEncoder) error {
		to.AddInt64("prompt", call.prompt)
		to.AddInt64("completion", call.completion)
		to.AddInt64("total", call.prompt+call.completion)
		to.AddInt64("cached", call.CachedTokens)
		to.AddInt64("cache_write", call.CacheWriteTokens)
		to.AddInt64("reasoning", call.ReasoningTokens)
		to.AddBool("estimated", call.estimated)
		return nil
	}))
}

// String returns the object as JSON, for a placeholder within a text.
func (i *requestInfo) String() string {
	line, err := zapcore.NewJSONEncoder(zapcore.EncoderConfig{SkipLineEnding: true}).EncodeEntry(zapcore.Entry{}, []zap.Field{zap.Inline(i)})
	if err != nil {
		return ""
	}
	defer line.Free()
	return line.String()
}

// definition returns the definition that answers the key; nil: none is picked.
func (p *picked) definition() *definition.Definition {
	switch {
	case p.prompt != nil:
		return &p.prompt.Definition
	case p.config != nil:
		return &p.config.Definition
	}
	return nil
}

func (p *picked) table() *rules.Table {
	if p.prompt != nil {
		return p.prompt.Table()
	}
	return p.config.Table()
}

func (p *picked) key() string  { return p.definition().Key }
func (p *picked) kind() string { return p.definition().Kind.String() }
func (p *picked) row() string  { return rowOf(p.table(), p.decision) }

// variant returns the key of a prompt's variant; a configuration has none.
func (p *picked) variant() string {
	if p.prompt == nil {
		return ""
	}
	return p.prompt.Variant(p.decision).Key
}

// arm returns what the trace of the answer has as its arm.
func (p *picked) arm() string {
	if p.prompt != nil {
		return p.variant()
	}
	return p.config.Table().Arm(p.decision)
}
