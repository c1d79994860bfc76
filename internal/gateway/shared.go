package gateway

import (
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/trace"
)

// worthSharing is how many bytes of copies a shared row must save. Such a row has
// what the answers of a request have in common. It takes about as much time as
// writing that many bytes: see BenchmarkShared in store/sqlite.
const worthSharing = 2 << 10

// addRequest adds to record the parts of the request that the policy allows. A remote
// configuration has no use for variables: that its answers are logged with their
// content says nothing of those.
func (c *call) addRequest(record *trace.Record, policy definition.LogPolicy) {
	switch policy {
	case definition.LogContent:
		if c.context != nil {
			record.Context = jsontext.AppendValue(record.Context[:0], c.context)
		}
		if c.variables != nil && record.Kind != trace.KindRemoteConfig {
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

// addRequestToAll adds the request to the records of its answers. The parts that
// they have in common are written and redacted once. They are also stored once if
// that saves at least worthSharing bytes.
func (c *call) addRequestToAll() {
	policy, kind := definition.LogMetadata, trace.KindRemoteConfig
	for _, record := range c.records {
		if record.SharesContent {
			policy = definition.LogContent
			kind = min(kind, record.Kind) // a prompt's, if there is one
		}
	}
	if len(c.records) == 1 {
		c.addRequest(c.records[0], policy)
		c.workspace.redactRequest(c.records[0])
		return
	}
	common := trace.AcquireRecord()
	defer trace.ReleaseRecord(common)
	common.Kind = kind
	c.addRequest(common, policy)
	c.workspace.redactRequest(common)
	var shared *trace.Shared
	if requestSize(common)*(len(c.records)-1) >= worthSharing {
		shared = &trace.Shared{
			Notes:    slices.Clone(common.Notes),
			Metadata: slices.Clone(common.Metadata), Context: slices.Clone(common.Context), Variables: slices.Clone(common.Variables),
		}
	}
	for _, record := range c.records {
		c.workspace.redactRequest(record) // its own parts
		if shared != nil {
			record.Shared = shared
		} else {
			copyRequest(record, common)
		}
	}
}

// requestSize returns the size of the request's parts in a record, in bytes.
func requestSize(record *trace.Record) int {
	size := len(record.Metadata) + len(record.Context) + len(record.Variables)
	for _, note := range record.Notes {
		size += len(note)
	}
	return size
}

// copyRequest copies to the record the parts of the request that it may have.
func copyRequest(record, common *trace.Record) {
	record.Notes = slices.Insert(record.Notes, 0, common.Notes...)
	record.Metadata = append(record.Metadata[:0], common.Metadata...)
	if record.SharesContent {
		record.Context = append(record.Context[:0], common.Context...)
		record.Variables = append(record.Variables[:0], common.Variables...)
	}
}
