package trace

import "time"

// Metrics is what a caller reports on a trace. One trace may get many. Members
// that are nil were not reported.
type Metrics struct {
	TraceID   ID
	Workspace string
	APIKey    string // the name of the reporter's key
	Time      time.Time

	// UUID tells the record from every other, in whatever store it is. The store
	// gives it when it takes the record; it is set in what is read back.
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
	Metadata         []byte // a JSON object

	// Reply answers the report, where that bears an idempotency key: both are
	// stored in one transaction, or neither.
	Reply *Reply
}
