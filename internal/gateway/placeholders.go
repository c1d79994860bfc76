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
	"github.com/cadenza-gateway/cadenza/trace"
)

// requestInfo holds the values of a request's placeholders. The access log reads them
// after the handler has returned, when the call is already back in its pool. So it copies
// values of the call, and formats them only when they are read.
type requestInfo struct {
	workspace, key string
	route          string
	code           string // of the error, or of a call whose caller has left; empty: the request succeeded
	// The values of the headers of the same names, one value each.
	traceID, decisionID, revision, length [1]string

	only    picked   // the decision of a request for one key
	several []picked // the decisions of a request for several keys
	cache   string   // hit or miss; empty: no cache was asked

	endpoint *definition.Endpoint // nil: the request calls no endpoint
	call     *callInfo            // nil: the call has not ended

	owner   *Workspace             // nil: the request has no valid key
	asked   *definition.Definition // the definition that the request counts for, or nil
	counted *definitionSeries      // the series of asked, in served
	served  *servedSeries          // the workspace's series when the request arrived
}

// callInfo holds the values of the placeholders of a call, except its key.
type callInfo struct {
	variant, arm, row            string
	endpointVariant, endpointRow string
	provider, model              string // both empty: no provider was called
	finish, code                 string // the code in its trace
	attempts                     int
	// The tokens of all attempts, including those that failed or lost a hedge.
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

// identify notes the caller of the request.
func (i *requestInfo) identify(key *principal) {
	i.workspace, i.key, i.owner = key.workspace.Name, key.name, key.workspace
	i.served = i.owner.countedBy()
	i.counted = i.served.none
}

// findSpan finds the span of the request, if the request is traced.
func (in *incoming) findSpan() {
	if span := oteltrace.SpanFromContext(in.r.Context()); span.SpanContext().IsValid() {
		in.span = span
	}
}

// describeAnswers notes what was decided for the request's keys, for its placeholders
// and its trace.
func (a *answers) describeAnswers() {
	a.traceDecision(nil)
	switch status := a.cacheStatus(a.answered); {
	case status == nil:
	case &status[0] == &cacheHit[0]:
		a.info.cache = "hit"
	default:
		a.info.cache = "miss"
	}
	switch {
	case len(a.picked) == 1:
		a.info.only = a.picked[0]
	case a.gateway.describeTo != nil: // otherwise nobody reads it
		a.info.several = append(a.info.several, a.picked...)
	}
}

// dollars rounds a sum of costs: 0.30000000000000004 to 0.3.
func dollars(sum float64) float64 { return math.Round(sum*1e12) / 1e12 }

// describeEnd notes the end of a call, for the request's placeholders and its spans. The
// record's attempts must be complete.
func (i *invocation) describeEnd(result *invoke.Result) {
	i.traceEnd(result)
	record, info := i.record, &i.ended
	*info = callInfo{
		variant: record.Variant, arm: record.Arm, row: record.Row,
		endpointVariant: record.EndpointVariant, endpointRow: record.EndpointRow,
		finish: record.FinishReason, code: record.Code, attempts: len(record.Attempts),
		cost: dollars(record.Cost),
	}
	switch {
	case result.Served >= 0:
		// The configured names: the model's name in an answer may be any text.
		info.provider, info.model = i.request.Targets[result.Served].Name, i.request.Targets[result.Served].Model
	case info.attempts > 0 || record.Cached:
		info.provider, info.model = record.Provider, record.Model
	}
	for n := range record.Attempts {
		a := &record.Attempts[n]
		info.prompt += a.PromptTokens
		info.completion += a.CompletionTokens
		info.CachedTokens += a.CachedTokens
		info.CacheWriteTokens += a.CacheWriteTokens
		info.ReasoningTokens += a.ReasoningTokens
		info.estimated = info.estimated || a.Estimated
	}
	switch {
	case record.Cached:
		i.info.cache = "hit"
	case i.plan.policy.CacheTTL > 0:
		i.info.cache = "miss"
	}
	i.info.call = info
}

// placeholders are the placeholders of a request without their prefix "cadenza.", in the
// order of an access log. {http.auth.user.id} and {cadenza} are not in the list. The
// placeholders of a call are zero until the call has ended.
var placeholders = []struct {
	name   string
	ofCall bool // only calls have it
	value  func(*requestInfo) any
}{
	{"workspace", false, func(i *requestInfo) any { return i.workspace }},
	{"route", false, func(i *requestInfo) any { return i.route }},
	{"code", false, func(i *requestInfo) any { return i.code }},
	{"key", false, func(i *requestInfo) any { return i.keys() }},
	{"kind", false, func(i *requestInfo) any { return i.kind() }},
	{"variant", false, func(i *requestInfo) any { return i.of(i.ended().variant, (*picked).variant) }},
	{"arm", false, func(i *requestInfo) any { return i.of(i.ended().arm, (*picked).arm) }},
	{"row", false, func(i *requestInfo) any { return i.of(i.ended().row, (*picked).row) }},
	{"cache", false, func(i *requestInfo) any { return i.cache }},
	{"trace_id", false, func(i *requestInfo) any { return i.traceID[0] }},
	{"decision_id", false, func(i *requestInfo) any { return i.decisionID[0] }},
	{"revision", false, func(i *requestInfo) any { return i.revision[0] }},
	{"endpoint_variant", true, func(i *requestInfo) any { return i.ended().endpointVariant }},
	{"endpoint_row", true, func(i *requestInfo) any { return i.ended().endpointRow }},
	{"provider", true, func(i *requestInfo) any { return i.ended().provider }},
	{"model", true, func(i *requestInfo) any { return i.ended().model }},
	{"finish_reason", true, func(i *requestInfo) any { return i.ended().finish }},
	{"attempts", true, func(i *requestInfo) any { return i.ended().attempts }},
	{"cost", true, func(i *requestInfo) any { return i.ended().cost }},
	{"tokens.prompt", true, func(i *requestInfo) any { return i.ended().prompt }},
	{"tokens.completion", true, func(i *requestInfo) any { return i.ended().completion }},
	{"tokens.total", true, func(i *requestInfo) any { return i.ended().prompt + i.ended().completion }},
	{"tokens.cached", true, func(i *requestInfo) any { return i.ended().CachedTokens }},
	{"tokens.cache_write", true, func(i *requestInfo) any { return i.ended().CacheWriteTokens }},
	{"tokens.reasoning", true, func(i *requestInfo) any { return i.ended().ReasoningTokens }},
	{"tokens.estimated", true, func(i *requestInfo) any { return i.ended().estimated }},
}

// placeholder returns the value of a placeholder, and whether the name is known.
func (i *requestInfo) placeholder(name string) (any, bool) {
	switch name {
	case "http.auth.user.id":
		return i.key, i.owner != nil
	case "cadenza":
		return i, true
	}
	own, found := strings.CutPrefix(name, "cadenza.")
	if !found {
		return nil, false
	}
	for n := range placeholders {
		if p := &placeholders[n]; p.name == own {
			return p.value(i), true
		}
	}
	return nil, false
}

// ended returns the values of the call, which are zero before its end.
func (i *requestInfo) ended() *callInfo {
	if i.call == nil {
		return new(callInfo)
	}
	return i.call
}

// keys returns the key of the endpoint, or the keys that were answered.
func (i *requestInfo) keys() string {
	if i.endpoint != nil {
		return i.endpoint.Key
	}
	return i.all((*picked).key)
}

// of returns the call's value or, for a request for keys, the values of the keys.
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
	case i.several == nil && i.only.definition == nil:
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

// kind returns the kind of each key, or one kind if all keys have the same.
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

// MarshalLogObject writes all placeholders that are not empty. It makes {cadenza} one field
// of an access log that contains all others.
func (i *requestInfo) MarshalLogObject(to zapcore.ObjectEncoder) error {
	if i.key != "" {
		to.AddString("api_key", i.key)
	}
	i.log(to, "")
	if i.call == nil {
		return nil
	}
	return to.AddObject("tokens", zapcore.ObjectMarshalerFunc(func(to zapcore.ObjectEncoder) error {
		i.log(to, "tokens.")
		return nil
	}))
}

// log writes the placeholders with a prefix, without those that have another dot.
func (i *requestInfo) log(to zapcore.ObjectEncoder, prefix string) {
	for n := range placeholders {
		p := &placeholders[n]
		name, found := strings.CutPrefix(p.name, prefix)
		if !found || strings.Contains(name, ".") || p.ofCall && i.call == nil {
			continue
		}
		if value := p.value(i); value != "" {
			zap.Any(name, value).AddTo(to)
		}
	}
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

func (p *picked) key() string  { return p.definition.Key }
func (p *picked) kind() string { return p.definition.Kind.String() }
func (p *picked) row() string  { return rowOf(p.definition.Table(), p.decision) }

// variant returns the key of a prompt's variant; a value has none.
func (p *picked) variant() string {
	if prompt := p.definition.Rendered(); prompt != nil {
		return prompt.Variant(p.decision).Key
	}
	return ""
}

// arm returns the arm that the answer's trace records.
func (p *picked) arm() string {
	if p.definition.Kind.Variants {
		return p.variant()
	}
	return p.definition.Table().Arm(p.decision)
}
