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
)

// Economics counts an answer's tokens. Total is the sum of the other two. A request
// has at least two of the three.
type Economics struct {
	PromptTokens     int64
	CompletionTokens int64
	TotalTokens      int64
}

// MetricsRecord is what an application reports on a trace. A nil member was
// absent or null. The record owns its data: it outlives the Request.
type MetricsRecord struct {
	TraceID *string
	// Metadata is a JSON object with members, compact, or nil.
	Metadata []byte
	Score    *float64 // 0 to 100
	// Latency and RoundtripTime are in milliseconds.
	Latency        *float64
	RoundtripTime  *float64
	LLMResponse    *string
	ChainID        *string
	ConversationID *string
	Economics      *Economics
}

// Empty reports whether the record holds nothing to store.
func (m *MetricsRecord) Empty() bool {
	return m.Metadata == nil && m.Score == nil && m.Latency == nil && m.RoundtripTime == nil &&
		m.LLMResponse == nil && m.ChainID == nil && m.ConversationID == nil && m.Economics == nil
}

// Metrics parses the body of a request to /v1/metrics. The members' types and
// ranges are checked here; which of them the trace takes is decided by Apply.
func (r *Request) Metrics() (*MetricsRecord, *Error) {
	body, err := r.parse()
	if err != nil {
		return nil, err
	}
	return r.metricsRecord(body)
}

func (r *Request) metricsRecord(body *fastjson.Object) (*MetricsRecord, *Error) {
	m := new(MetricsRecord)
	for _, member := range [...]struct {
		name string
		into **string
	}{
		{"trace_id", &m.TraceID},
		{"llm_response", &m.LLMResponse},
		{"chain_id", &m.ChainID},
		{"conversation_id", &m.ConversationID},
	} {
		v := body.Get(member.name)
		if isNull(v) {
			continue
		}
		if v.Type() != fastjson.TypeString {
			return nil, Errorf(InvalidRequest, member.name, "%q must be a string, not %s.", member.name, describe(v))
		}
		*member.into = new(string(v.GetStringBytes()))
	}
	if err := m.checkTexts(); err != nil {
		return nil, err
	}
	for _, member := range [...]struct {
		name string
		into **float64
		most float64
	}{
		{"score", &m.Score, maxScore},
		{"latency", &m.Latency, maxMilliseconds},
		{"roundtrip_time", &m.RoundtripTime, maxMilliseconds},
	} {
		v := body.Get(member.name)
		if isNull(v) {
			continue
		}
		n, err := numberMember(member.name, v, member.most)
		if err != nil {
			return nil, err
		}
		*member.into = &n
	}
	metadata, err := r.metadataMember(body)
	if err != nil {
		return nil, err
	}
	if metadata != nil {
		m.Metadata = jsontext.AppendValue(nil, metadata)
	}
	if v := body.Get("economics"); !isNull(v) {
		if m.Economics, err = economics(v); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// numberMember reads a number between 0 and most.
func numberMember(param string, v *fastjson.Value, most float64) (float64, *Error) {
	if v.Type() != fastjson.TypeNumber {
		return 0, Errorf(InvalidRequest, param, "%q must be a number, not %s.", param, describe(v))
	}
	var text [32]byte
	raw := v.MarshalTo(text[:0])
	n, parseErr := strconv.ParseFloat(view(raw), 64)
	if parseErr != nil || !(n >= 0 && n <= most) {
		return 0, Errorf(InvalidRequest, param, "%q is %s, but must be between 0 and %.0f.", param, clip(string(raw)), most)
	}
	// -0 is within the range, but no client means it.
	return math.Abs(n), nil
}

func economics(v *fastjson.Value) (*Economics, *Error) {
	object, notObject := v.Object()
	if notObject != nil {
		return nil, Errorf(InvalidRequest, "economics", `"economics" must be an object, not %s.`, describe(v))
	}
	var e Economics
	members := [...]struct {
		name   string
		into   *int64
		absent bool
	}{
		{name: "prompt_tokens", into: &e.PromptTokens},
		{name: "total_tokens", into: &e.TotalTokens},
		{name: "completion_tokens", into: &e.CompletionTokens},
	}
	absent := 0
	for i := range members {
		member := &members[i]
		param := "economics." + member.name
		v := object.Get(member.name)
		if isNull(v) {
			member.absent = true
			absent++
			continue
		}
		n, err := numberMember(param, v, maxTokens)
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
		e.PromptTokens = e.TotalTokens - e.CompletionTokens
	case members[1].absent:
		e.TotalTokens = e.PromptTokens + e.CompletionTokens
	case members[2].absent:
		e.CompletionTokens = e.TotalTokens - e.PromptTokens
	}
	const param = "economics.total_tokens"
	switch {
	case e.PromptTokens < 0 || e.CompletionTokens < 0:
		return nil, Errorf(InvalidRequest, param,
			`%q is %d, less than the %d that it is to contain.`, param, e.TotalTokens, max(e.PromptTokens, e.CompletionTokens))
	case e.TotalTokens > maxTokens:
		return nil, Errorf(InvalidRequest, param, `Prompt and completion tokens sum to %d, but %q must be at most %d.`, e.TotalTokens, param, maxTokens)
	case e.PromptTokens+e.CompletionTokens != e.TotalTokens:
		return nil, Errorf(InvalidRequest, param,
			`%q is %d, but prompt and completion tokens sum to %d.`, param, e.TotalTokens, e.PromptTokens+e.CompletionTokens)
	}
	return &e, nil
}

// Apply reduces the record to what a trace of the given kind takes and returns
// the names of the members it dropped. It fails with NoMetrics where nothing
// is left that such a trace requires.
//
// Prompt traces, and records of their own, take every member and require one.
// Endpoint traces take metadata and score and require one of them: the gateway
// measured the rest itself. Remote-configuration traces take metadata and
// require nothing. The roundtrip time, which old clients send unasked, is kept
// for every kind.
func (m *MetricsRecord) Apply(kind trace.Kind) (ignored []string, err *Error) {
	switch kind {
	case trace.KindEndpoint:
		ignored = m.dropMeasured(nil)
		if m.Metadata == nil && m.Score == nil {
			return nil, Errorf(NoMetrics, "", `The record has nothing an endpoint's trace takes. Send "metadata", "score" or both.`)
		}
	case trace.KindRemoteConfig:
		if m.Score != nil {
			m.Score = nil
			ignored = append(ignored, "score")
		}
		ignored = m.dropMeasured(ignored)
	default:
		if m.Empty() {
			return nil, Errorf(NoMetrics, "", `The record is empty. Send at least one of "metadata", "score", "latency", "llm_response", "chain_id", "conversation_id", "economics".`)
		}
	}
	return ignored, nil
}

// dropMeasured drops the members that only prompt traces take.
func (m *MetricsRecord) dropMeasured(ignored []string) []string {
	if m.Latency != nil {
		m.Latency = nil
		ignored = append(ignored, "latency")
	}
	if m.LLMResponse != nil {
		m.LLMResponse = nil
		ignored = append(ignored, "llm_response")
	}
	if m.ChainID != nil {
		m.ChainID = nil
		ignored = append(ignored, "chain_id")
	}
	if m.ConversationID != nil {
		m.ConversationID = nil
		ignored = append(ignored, "conversation_id")
	}
	if m.Economics != nil {
		m.Economics = nil
		ignored = append(ignored, "economics")
	}
	return ignored
}
