package trace

import (
	"cmp"
	"time"
)

// Metrics is a caller's report on a trace, or on all traces of a decision. A trace
// may have many. Members that are nil were not reported.
type Metrics struct {
	TraceID   ID // zero: the report is on all traces of Decision
	Decision  ID // zero: the report is on the trace TraceID
	Workspace string
	APIKey    string // the name of the reporter's key
	Time      time.Time

	// UUID is the metrics' own id, which is the same in every copy of them. The store
	// creates it, so metrics read from the store have it.
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

	// A report on a unit has the field whose value the unit is, and the keyed hash that
	// stands for the value in the splits of traces. It is on no trace: TraceID is its own.
	UnitField string
	Unit      string
	Happened  time.Time // what it reports; Time is when the report came
	EventID   string    // which a workspace stores once; empty: none

	// Repeated is set by a commit that found the event id, and stored nothing.
	Repeated bool

	// Reply is the answer to a report with an idempotency key. One transaction stores
	// both.
	Reply *Reply
}

// Size returns the approximate memory of the metrics without their reply, in bytes.
func (m *Metrics) Size() int {
	size := recordOverhead + len(m.Metadata) + len(m.Values) + len(m.UnitField) + len(m.Unit) + len(m.EventID)
	for _, text := range [...]*string{m.LLMResponse, m.ChainID, m.ConversationID} {
		if text != nil {
			size += len(*text)
		}
	}
	return size
}

// Takes reports whether traces of the kind take a member of metrics. The name is its
// field's name in [MetricsFields], or its group. A report on a trace must have only
// such members. A report on a decision may have any member: each of its traces shows
// the members that its kind takes.
//
// Traces of prompts and of KindMetrics take every member. The gateway itself measures
// calls of endpoints. A remote configuration has no answer that could be scored.
func (k Kind) Takes(name string) bool {
	switch name {
	case "score", "chain_id", "conversation_id":
		return k != KindRemoteConfig
	case "latency_ms", "llm_response", "usage":
		return k != KindRemoteConfig && k != KindEndpoint
	}
	return true
}

// Reduce removes the members that traces of the kind do not take. It returns their
// names in the sense of Takes, in the order of MetricsFields.
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

// clearMember removes a member that only some kinds take, and reports whether it was
// set.
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
