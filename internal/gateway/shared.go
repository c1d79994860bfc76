package gateway

import (
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/trace"
)

// worthSharing is the number of bytes that a shared row must save. Such a row holds the
// common parts of a request's answers. Writing it takes about as long as writing that many
// bytes: see BenchmarkShared in store/sqlite.
const worthSharing = 2 << 10

// addRequest adds the parts of the request that the policy allows to record. Values of
// remote configurations use no variables, so variables are added only with variants set.
func (e *evaluation) addRequest(record *trace.Record, policy definition.LogPolicy, variants bool) {
	switch policy {
	case definition.LogContent:
		if e.context != nil {
			record.Context = jsontext.AppendValue(record.Context[:0], e.context)
		}
		if e.variables != nil && variants {
			record.Variables = jsontext.AppendValue(record.Variables[:0], e.variables)
		}
		fallthrough
	case definition.LogMetadata:
		if e.metadata != nil {
			record.Metadata = jsontext.AppendValue(record.Metadata[:0], e.metadata)
		}
		for i, note := range e.binding.Notes() {
			record.Notes = slices.Insert(record.Notes, i, "context."+note.Field+": "+note.Reason)
		}
	}
}

// addRequestToAll adds the request to the records of its answers. The parts that
// they have in common are written and redacted once. They are also stored once if
// that saves at least worthSharing bytes.
func (a *answers) addRequestToAll() {
	policy, variants := definition.LogMetadata, false
	for _, record := range a.records {
		if record.SharesContent {
			policy = definition.LogContent
			variants = variants || kind.Of(record.Kind).Variants
		}
	}
	if len(a.records) == 1 {
		a.addRequest(a.records[0], policy, variants)
		a.workspace.redactRequest(a.records[0])
		return
	}
	common := trace.AcquireRecord()
	defer trace.ReleaseRecord(common)
	a.addRequest(common, policy, variants)
	a.workspace.redactRequest(common)
	var shared *trace.Shared
	if requestSize(common)*(len(a.records)-1) >= worthSharing {
		shared = &trace.Shared{
			Notes:    slices.Clone(common.Notes),
			Metadata: slices.Clone(common.Metadata), Context: slices.Clone(common.Context), Variables: slices.Clone(common.Variables),
		}
	}
	for _, record := range a.records {
		a.workspace.redactRequest(record) // its own parts
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
