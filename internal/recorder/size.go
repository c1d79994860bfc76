package recorder

import (
	"slices"

	"github.com/cadenza-gateway/cadenza/trace"
)

// overhead estimates the memory of an item without its content, in bytes.
// [trace.Record.Size] uses the same figure.
const overhead = 512

func metricsSize(m *trace.Metrics) int {
	size := m.Size()
	if m.Reply != nil {
		size += replySize(m.Reply)
	}
	return size
}

func replySize(r *trace.Reply) int { return overhead + len(r.Key) + len(r.Body) }

func versionSize(v *trace.Version) int { return overhead + len(v.Content) }

// sharedSize estimates the memory of the shared members, in bytes.
func sharedSize(s *trace.Shared) int {
	size := overhead + len(s.Metadata) + len(s.Context) + len(s.Variables)
	for _, note := range s.Notes {
		size += 16 + len(note)
	}
	return size
}

// cloneMetrics copies the members that the reporter may reuse: everything but what is
// behind pointers, and the strings.
func cloneMetrics(m *trace.Metrics) *trace.Metrics {
	c := *m
	c.Values = slices.Clone(m.Values)
	c.Metadata = slices.Clone(m.Metadata)
	if m.Reply != nil {
		c.Reply = cloneReply(m.Reply)
	}
	return &c
}

func cloneReply(r *trace.Reply) *trace.Reply {
	c := *r
	c.Body = slices.Clone(r.Body)
	return &c
}
