package gateway

import (
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
)

// evidence is what the decisions of one answer rest on, until the answer's record
// has it.
type evidence struct {
	tables []*rules.Table // that decided for the answer
	trail  rules.Trail    // of these tables
}

func (e *evidence) reset() {
	clear(e.tables)
	e.tables = e.tables[:0]
	e.trail.Reset()
}

// addEvidence adds what a table consulted for its decision to the evidence of the
// answer. An answer may have the decisions of several tables.
func (c *call) addEvidence(table *rules.Table, decision rules.Decision) {
	c.evidence.tables = append(c.evidence.tables, table)
	if table.HasTrail() {
		table.AppendTrail(&c.evidence.trail, &c.binding, decision)
	}
}

// splitSize and inputsSize are about the sizes of a split and of the inputs in a
// record, in bytes: a new record gets room for them at once.
const (
	splitSize  = 192
	inputsSize = 192
)

// recordEvidence moves the evidence of the answer into its record.
func (c *call) recordEvidence(record *trace.Record) {
	e := &c.evidence
	if len(e.tables) == 0 {
		return // nothing is recorded
	}
	if n := len(e.trail.Splits); n > 0 {
		record.Splits = slices.Grow(record.Splits[:0], n*splitSize)
		record.Splits = e.trail.AppendSplits(record.Splits, &c.binding, c.hasher.Append)
	}
	if len(e.trail.Asked) > 0 {
		record.Read = c.appendRead(record.Read[:0])
		e.tables = append(e.tables, e.trail.Asked...)
	}
	if c.binding.NoContext() && slices.ContainsFunc(e.tables, (*rules.Table).ReadsGateway) {
		record.Notes = append(record.Notes, rules.NoteNoContext)
	}
	record.Inputs = slices.Grow(record.Inputs[:0], inputsSize)
	record.Inputs = e.tables[0].AppendInputs(record.Inputs, &c.binding, e.tables[1:], c.hasher.Append)
	e.reset()
}

// appendRead appends the versions of the configurations that were read as a JSON
// object.
func (c *call) appendRead(dst []byte) []byte {
	for i, table := range c.evidence.trail.Asked {
		before := byte(',')
		if i == 0 {
			before = '{'
		}
		name := table.Name()
		dst = jsontext.AppendString(append(dst, before), name)
		dst = append(dst, ':')
		config := c.snapshot.RemoteConfigs[strings.TrimPrefix(name, configsFolder)]
		dst = jsontext.AppendString(dst, config.Version)
	}
	return append(dst, '}')
}
