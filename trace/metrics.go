package trace

import "time"

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
