package trace

import (
	"slices"
	"time"
)

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

// clone copies what the reporter may reuse: everything but the strings.
func (m *Metrics) clone() *Metrics {
	c := *m
	c.Score = cloned(m.Score)
	c.Latency = cloned(m.Latency)
	c.RoundtripTime = cloned(m.RoundtripTime)
	c.LLMResponse = cloned(m.LLMResponse)
	c.ChainID = cloned(m.ChainID)
	c.ConversationID = cloned(m.ConversationID)
	c.PromptTokens = cloned(m.PromptTokens)
	c.CompletionTokens = cloned(m.CompletionTokens)
	c.TotalTokens = cloned(m.TotalTokens)
	c.Metadata = slices.Clone(m.Metadata)
	if m.Reply != nil {
		c.Reply = m.Reply.clone()
	}
	return &c
}

func cloned[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

// size is about what the record takes in memory, in bytes.
func (m *Metrics) size() int {
	size := recordOverhead + len(m.Metadata)
	for _, text := range []*string{m.LLMResponse, m.ChainID, m.ConversationID} {
		if text != nil {
			size += len(*text)
		}
	}
	if m.Reply != nil {
		size += m.Reply.size()
	}
	return size
}
