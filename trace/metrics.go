package trace

import (
	"cmp"
	"time"
)

// Metrics is what a caller reports on a trace, or on all traces of a decision. One
// trace may get many. Members that are nil were not reported.
type Metrics struct {
	TraceID   ID // zero: the report is on all traces of Decision
	Decision  ID // zero: the report is on the trace TraceID
	Workspace string
	APIKey    string // the name of the reporter's key
	Time      time.Time

	// UUID is the metrics' own id, the same in every copy of them. The store makes
	// it when it takes the metrics; it is set in what is read back.
	UUID [16]byte

	Score            *float64 // 0 to 100
	Latency          *float64 // in milliseconds
	RoundtripTime    *float64 // in milliseconds
	LLMResponse      *string
	ChainID          *string
	ConversationID   *string
	PromptTokens     *int64
	CompletionTokens *int64
	TotalTokens      *int64
	Values           []byte // a JSON object of numbers, by name
	Metadata         []byte // a JSON object

	// Reply answers a report that has an idempotency key. Both are stored in one
	// transaction, or neither.
	Reply *Reply
}

// Takes reports whether traces of the kind take a member of metrics, by the name of
// its field in [MetricsFields] or of its group. A report on a trace must have only
// these. A report on a decision may have any: each of its traces shows what its
// kind takes.
//
// Traces of prompts, and those that metrics have of their own, take every member. A
// call of an endpoint was measured by the gateway itself. A remote configuration has
// no answer that could be scored.
func (k Kind) Takes(name string) bool {
	switch name {
	case "score", "chain_id", "conversation_id":
		return k != KindRemoteConfig
	case "latency_ms", "llm_response", "usage":
		return k != KindRemoteConfig && k != KindEndpoint
	}
	return true
}

// Reduce removes the members that traces of the kind do not take. It returns the
// names by which Takes knows them, in the order of MetricsFields.
func (m *Metrics) Reduce(kind Kind) (removed []string) {
	for i := range MetricsFields {
		f := &MetricsFields[i]
		name := cmp.Or(f.Group, f.Name)
		if kind.Takes(name) || !clearMember(f.At(m)) {
			continue
		}
		if n := len(removed); n == 0 || removed[n-1] != name {
			removed = append(removed, name)
		}
	}
	return removed
}

// clearMember removes a member that not every kind takes, and reports whether it
// was there.
func clearMember(at any) (there bool) {
	switch at := at.(type) {
	case **float64:
		there, *at = *at != nil, nil
	case **int64:
		there, *at = *at != nil, nil
	case **string:
		there, *at = *at != nil, nil
	}
	return there
}
