package wire

import (
	"math"
	"strconv"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/trace"
)

// Ceilings of a metrics record's numbers. They are far above real values: a larger
// number is in another unit or would overflow a sum.
const (
	maxScore        = 100
	maxMilliseconds = 1e12
	maxTokens       = 1_000_000_000
	maxNamedValue   = 1e15 // on either side of 0
)

// maxNamedValues is how many values a record may have.
const maxNamedValues = 32

// MetricsRecord is an application's report on a trace or a decision. It owns its
// data: it outlives the Request.
type MetricsRecord struct {
	// NamedTrace and NamedDecision are the ids in trace_id and decision_id as the
	// caller sent them, or nil.
	NamedTrace, NamedDecision *string
	// NamedUnit is the value of the record's UnitField, as the caller sent it, or nil.
	// It is valid as long as the Request's parsed values.
	NamedUnit *fastjson.Value
	// Metrics holds the report without ids. Its members are compact JSON.
	trace.Metrics
}

// Empty reports whether the record holds nothing to store.
func (m *MetricsRecord) Empty() bool { return !m.asked() && m.RoundtripTime == nil }

// asked reports whether the record holds a member that its caller meant to report:
// old clients send the roundtrip time unasked.
func (m *MetricsRecord) asked() bool {
	return m.Metadata != nil || m.Values != nil || m.Score != nil || m.Latency != nil ||
		m.LLMResponse != nil || m.ChainID != nil || m.ConversationID != nil || m.TotalTokens != nil
}

// Metrics parses the body of a request to /v1/metrics. The members' types and
// ranges are checked here; which of them the trace takes is decided by Apply.
func (r *Request) Metrics() (*MetricsRecord, *Error) {
	body, err := r.Object()
	if err != nil {
		return nil, err
	}
	return r.anyRecord(body)
}

// anyRecord reads a record of /v1/metrics, which may be on a unit.
func (r *Request) anyRecord(body *fastjson.Object) (*MetricsRecord, *Error) {
	if body.Get("unit") != nil { // null, as of a join without a match, names nothing
		return r.unitRecord(body)
	}
	for _, name := range [...]string{"time", "event_id"} {
		if !IsNull(body.Get(name)) {
			return nil, Errorf(InvalidRequest, name, `%q goes with "unit": a report on a trace or a decision has none.`, name)
		}
	}
	return r.metricsRecord(body)
}

func (r *Request) metricsRecord(body *fastjson.Object) (*MetricsRecord, *Error) {
	m := new(MetricsRecord)
	for _, member := range [...]struct {
		name string
		into **string
	}{
		{"trace_id", &m.NamedTrace},
		{"decision_id", &m.NamedDecision},
		{"llm_response", &m.LLMResponse},
		{"chain_id", &m.ChainID},
		{"conversation_id", &m.ConversationID},
	} {
		v := body.Get(member.name)
		if IsNull(v) {
			continue
		}
		if v.Type() != fastjson.TypeString {
			return nil, Errorf(InvalidRequest, member.name, "%q must be a string, not %s.", member.name, Describe(v))
		}
		*member.into = new(string(v.GetStringBytes()))
	}
	if m.NamedTrace != nil && m.NamedDecision != nil {
		return nil, Errorf(InvalidRequest, "decision_id", `The record names a trace and a decision. Send "trace_id" to report on one trace, or "decision_id" to report on all traces of a decision.`)
	}
	if err := m.checkTexts(); err != nil {
		return nil, err
	}
	for _, member := range [...]struct {
		name string
		into **float64
		high float64
	}{
		{"score", &m.Score, maxScore},
		{"latency", &m.Latency, maxMilliseconds},
		{"roundtrip_time", &m.RoundtripTime, maxMilliseconds},
	} {
		v := body.Get(member.name)
		if IsNull(v) {
			continue
		}
		n, err := numberMember(member.name, v, 0, member.high)
		if err != nil {
			return nil, err
		}
		*member.into = &n
	}
	metadata, err := r.MetadataMember(body)
	if err != nil {
		return nil, err
	}
	if metadata != nil {
		m.Metadata = jsontext.AppendValue(nil, metadata)
	}
	if v := body.Get("values"); !IsNull(v) {
		if m.Values, err = namedValues(v); err != nil {
			return nil, err
		}
	}
	if v := body.Get("economics"); !IsNull(v) {
		counts, err := economics(v)
		if err != nil {
			return nil, err
		}
		m.PromptTokens, m.CompletionTokens, m.TotalTokens = &counts.prompt, &counts.completion, &counts.total
	}
	return m, nil
}

// numberMember reads a number between low and high.
func numberMember(param string, v *fastjson.Value, low, high float64) (float64, *Error) {
	if v.Type() != fastjson.TypeNumber {
		return 0, Errorf(InvalidRequest, param, "%q must be a number, not %s.", param, Describe(v))
	}
	var text [32]byte
	raw := v.MarshalTo(text[:0])
	n, parseErr := strconv.ParseFloat(jsontext.View(raw), 64)
	if parseErr != nil || !(n >= low && n <= high) {
		return 0, Errorf(InvalidRequest, param, "%q is %s, but must be between %.0f and %.0f.", param, Clip(string(raw)), low, high)
	}
	if n == 0 {
		return 0, nil // also for -0, which no client means
	}
	return n, nil
}

// namedValues reads an object of numbers and returns it as compact JSON, or nil if
// it is empty. It formats each number again, because a caller may spell one with
// thousands of digits: 1.50e3 becomes 1500.
func namedValues(v *fastjson.Value) ([]byte, *Error) {
	object, notObject := v.Object()
	if notObject != nil {
		return nil, Errorf(InvalidRequest, "values", `"values" must be an object of numbers by their names, not %s.`, Describe(v))
	}
	if n := object.Len(); n > maxNamedValues {
		return nil, Errorf(InvalidRequest, "values", `"values" has %d members, but may have %d.`, n, maxNamedValues)
	}
	var values []byte
	var err *Error
	object.Visit(func(name []byte, v *fastjson.Value) {
		if err == nil && !IsNull(v) {
			values, err = appendNamedValue(values, name, v)
		}
	})
	if values == nil || err != nil {
		return nil, err
	}
	return append(values, '}'), nil
}

// appendNamedValue appends a member to an object that is still open.
func appendNamedValue(dst, name []byte, v *fastjson.Value) ([]byte, *Error) {
	if !LegalKey(jsontext.View(name)) {
		return nil, Errorf(InvalidRequest, "values", `"values" has the name %q, but a name is 1 to %d of the characters A-Z a-z 0-9 . _ : / -`, Clip(jsontext.View(name)), MaxKeyLength)
	}
	param := "values." + Clip(string(name))
	if t := v.Type(); t == fastjson.TypeTrue || t == fastjson.TypeFalse {
		return nil, Errorf(InvalidRequest, param, "%q must be a number, not a boolean. Send 1 for true and 0 for false.", param)
	}
	n, err := numberMember(param, v, -maxNamedValue, maxNamedValue)
	if err != nil {
		return nil, err
	}
	if dst == nil {
		dst = append(dst, '{')
	} else {
		dst = append(dst, ',')
	}
	dst = append(jsontext.AppendString(dst, name), ':')
	form := byte('f')
	if math.Abs(n) < 1e-6 && n != 0 {
		form = 'e' // no hundreds of zeros
	}
	return strconv.AppendFloat(dst, n, form, -1, 64), nil
}

// tokens counts an answer's tokens.
type tokens struct{ prompt, completion, total int64 }

// economics reads the counts of tokens. At least two must be there: the total is the
// sum of the others.
func economics(v *fastjson.Value) (*tokens, *Error) {
	object, notObject := v.Object()
	if notObject != nil {
		return nil, Errorf(InvalidRequest, "economics", `"economics" must be an object, not %s.`, Describe(v))
	}
	var e tokens
	members := [...]struct {
		name   string
		into   *int64
		absent bool
	}{
		{name: "prompt_tokens", into: &e.prompt},
		{name: "total_tokens", into: &e.total},
		{name: "completion_tokens", into: &e.completion},
	}
	absent := 0
	for i := range members {
		member := &members[i]
		param := "economics." + member.name
		v := object.Get(member.name)
		if IsNull(v) {
			member.absent = true
			absent++
			continue
		}
		n, err := numberMember(param, v, 0, maxTokens)
		if err != nil {
			return nil, err
		}
		if n != math.Trunc(n) {
			return nil, Errorf(InvalidRequest, param, "%q must be a whole number of tokens.", param)
		}
		*member.into = int64(n)
	}
	if absent > 1 {
		for _, member := range members {
			if member.absent {
				param := "economics." + member.name
				return nil, Errorf(InvalidRequest, param, `%q is missing: "economics" needs two of prompt_tokens, completion_tokens and total_tokens.`, param)
			}
		}
	}
	switch {
	case members[0].absent:
		e.prompt = e.total - e.completion
	case members[1].absent:
		e.total = e.prompt + e.completion
	case members[2].absent:
		e.completion = e.total - e.prompt
	}
	const param = "economics.total_tokens"
	switch {
	case e.prompt < 0 || e.completion < 0:
		return nil, Errorf(InvalidRequest, param,
			`%q is %d, less than the %d that it is to contain.`, param, e.total, max(e.prompt, e.completion))
	case e.total > maxTokens:
		return nil, Errorf(InvalidRequest, param, `Prompt and completion tokens sum to %d, but %q must be at most %d.`, e.total, param, maxTokens)
	case e.prompt+e.completion != e.total:
		return nil, Errorf(InvalidRequest, param,
			`%q is %d, but prompt and completion tokens sum to %d.`, param, e.total, e.prompt+e.completion)
	}
	return &e, nil
}

// Apply reduces the record to the members that a trace of the given kind takes and
// returns the names of the dropped members as callers know them. It fails with
// NoMetrics if a member that such a trace requires is missing: one member that the
// caller meant to report, or for the traces of prompts, decisions and metrics also
// the roundtrip time. Traces of remote configurations require nothing.
//
// A decision's report loses no member: the kinds of its traces are known only where
// they are stored, which may be later and on another node.
func (m *MetricsRecord) Apply(kind trace.Kind) (ignored []string, err *Error) {
	for _, name := range m.Reduce(kind) {
		switch name {
		case "latency_ms":
			name = "latency"
		case "usage":
			name = "economics"
		}
		ignored = append(ignored, name)
	}
	switch {
	case kind == trace.KindRemoteConfig:
	case kind == trace.KindEndpoint && !m.asked():
		return nil, Errorf(NoMetrics, "", `The record has nothing an endpoint's trace takes. Send at least one of "metadata", "score", "values", "chain_id", "conversation_id".`)
	case m.Empty():
		return nil, Errorf(NoMetrics, "", `The record is empty. Send at least one of "metadata", "score", "values", "latency", "llm_response", "chain_id", "conversation_id", "economics".`)
	}
	return ignored, nil
}
