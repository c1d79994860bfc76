package gateway

import (
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
)

// evidence is the basis of the decisions of one answer: the tables and what they read.
// recordEvidence moves it into the answer's record.
type evidence struct {
	tables []*rules.Table // that decided for the answer
	trail  rules.Trail    // of these tables
}

func (e *evidence) reset() {
	clear(e.tables)
	e.tables = e.tables[:0]
	e.trail.Reset()
}

// addEvidence adds a table, and what the table read for its decision, to the evidence of
// the answer. An answer may have the decisions of several tables.
func (a *answers) addEvidence(table *rules.Table) {
	a.evidence.tables = append(a.evidence.tables, table)
	if table.HasTrail() {
		table.AppendTrail(&a.evidence.trail, &a.binding)
	}
}

// splitSize and inputsSize are about the sizes of a split and of the inputs in a
// record, in bytes: a new record gets room for them at once.
const (
	splitSize  = 192
	inputsSize = 192
)

// recordEvidence moves the evidence of the answer into its record.
func (a *answers) recordEvidence(record *trace.Record) {
	e := &a.evidence
	if len(e.tables) == 0 {
		return // nothing is recorded
	}
	if len(e.trail.Asked) > 0 {
		record.Read = a.appendRead(record.Read[:0])
		e.tables = append(e.tables, e.trail.Asked...)
	}
	if slices.ContainsFunc(e.tables, (*rules.Table).HasTrail) {
		e.trail.Rest(&a.binding)
	}
	if n := len(e.trail.Splits); n > 0 {
		record.Splits = slices.Grow(record.Splits[:0], n*splitSize)
		record.Splits = e.trail.AppendSplits(record.Splits, &a.binding, a.hasher.Append)
	}
	if a.binding.NoContext() && slices.ContainsFunc(e.tables, (*rules.Table).ReadsGateway) {
		record.Notes = append(record.Notes, rules.NoteNoContext)
	}
	record.Inputs = slices.Grow(record.Inputs[:0], inputsSize)
	record.Inputs = e.tables[0].AppendInputs(record.Inputs, &a.binding, e.tables[1:], a.hasher.Append)
	e.reset()
}

// appendRead appends the versions of the configurations that were read as a JSON
// object.
func (a *answers) appendRead(dst []byte) []byte {
	for i, table := range a.evidence.trail.Asked {
		before := byte(',')
		if i == 0 {
			before = '{'
		}
		name := table.Name()
		dst = jsontext.AppendString(append(dst, before), name)
		dst = append(dst, ':')
		config := a.snapshot.RemoteConfigs[name[len(kind.RemoteConfig.Folder)+len("/"):]]
		dst = jsontext.AppendString(dst, config.Version)
	}
	return append(dst, '}')
}
