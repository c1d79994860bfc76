package recorder

import (
	"slices"

	"github.com/cadenza-gateway/cadenza/trace"
)

// overhead is about what an item takes in memory besides its content, in bytes.
// [trace.Record.Size] uses the same figure.
const overhead = 512

func metricsSize(m *trace.Metrics) int {
	size := overhead + len(m.Metadata) + len(m.Values)
	for _, text := range []*string{m.LLMResponse, m.ChainID, m.ConversationID} {
		if text != nil {
			size += len(*text)
		}
	}
	if m.Reply != nil {
		size += replySize(m.Reply)
	}
	return size
}

func replySize(r *trace.Reply) int { return overhead + len(r.Key) + len(r.Body) }

func versionSize(v *trace.Version) int { return overhead + len(v.Content) }

// sharedSize returns about what the members take in memory, in bytes.
func sharedSize(s *trace.Shared) int {
	size := overhead + len(s.Metadata) + len(s.Context) + len(s.Variables)
	for _, note := range s.Notes {
		size += 16 + len(note)
	}
	return size
}

// cloneMetrics copies what the reporter may reuse: everything but the strings.
func cloneMetrics(m *trace.Metrics) *trace.Metrics {
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
	c.Values = slices.Clone(m.Values)
	c.Metadata = slices.Clone(m.Metadata)
	if m.Reply != nil {
		c.Reply = cloneReply(m.Reply)
	}
	return &c
}

func cloned[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

func cloneReply(r *trace.Reply) *trace.Reply {
	c := *r
	c.Body = slices.Clone(r.Body)
	return &c
}
