package gateway

import (
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/trace"
)

// worthSharing is how many bytes of copies a row must save in which the store
// keeps what the answers of a request have in common. It costs as much time as
// to write about that many: see BenchmarkShared in store/sqlite.
const worthSharing = 2 << 10

// addRequest keeps of the request, in record, what the policy allows.
func (c *call) addRequest(record *trace.Record, policy definition.LogPolicy) {
	switch policy {
	case definition.LogContent:
		if c.context != nil {
			record.Context = jsontext.AppendValue(record.Context[:0], c.context)
		}
		if c.variables != nil {
			record.Variables = jsontext.AppendValue(record.Variables[:0], c.variables)
		}
		fallthrough
	case definition.LogMetadata:
		if c.metadata != nil {
			record.Metadata = jsontext.AppendValue(record.Metadata[:0], c.metadata)
		}
		for i, note := range c.binding.Notes() {
			record.Notes = slices.Insert(record.Notes, i, "context."+note.Field+": "+note.Reason)
		}
	}
}

// addRequestToAll adds the request to the records of its answers. What they have
// in common is written and redacted once, and kept once where it is worth that.
func (c *call) addRequestToAll() {
	policy := definition.LogMetadata
	for _, record := range c.records {
		if record.SharesContent {
			policy = definition.LogContent
		}
	}
	if len(c.records) == 1 {
		c.addRequest(c.records[0], policy)
		c.workspace.redactRequest(c.records[0])
		return
	}
	common := trace.AcquireRecord()
	defer trace.ReleaseRecord(common)
	c.addRequest(common, policy)
	c.workspace.redactRequest(common)
	var shared *trace.Shared
	var decision trace.ID
	if requestSize(common)*(len(c.records)-1) >= worthSharing {
		decision = c.workspace.newID(trace.KindDecision, c.began)
		shared = &trace.Shared{
			Notes:    slices.Clone(common.Notes),
			Metadata: slices.Clone(common.Metadata), Context: slices.Clone(common.Context), Variables: slices.Clone(common.Variables),
		}
	}
	for _, record := range c.records {
		c.workspace.redactRequest(record) // what is its own
		if shared != nil {
			record.Decision, record.Shared = decision, shared
		} else {
			copyRequest(record, common)
		}
	}
}

// requestSize is how much a record has of the request, in bytes.
func requestSize(record *trace.Record) int {
	size := len(record.Metadata) + len(record.Context) + len(record.Variables)
	for _, note := range record.Notes {
		size += len(note)
	}
	return size
}

// copyRequest gives the record copies of what it may have of the request.
func copyRequest(record, common *trace.Record) {
	record.Notes = slices.Insert(record.Notes, 0, common.Notes...)
	record.Metadata = append(record.Metadata[:0], common.Metadata...)
	if record.SharesContent {
		record.Context = append(record.Context[:0], common.Context...)
		record.Variables = append(record.Variables[:0], common.Variables...)
	}
}
