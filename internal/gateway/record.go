package gateway

import (
	"net/http"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
)

// newRecord begins the trace of one answer of the request's decision. The arm of a
// table of variants that its default answered is the caller's to add.
func (c *call) newRecord(kind trace.Kind, d *definition.Definition, table *rules.Table, decision rules.Decision) *trace.Record {
	record := trace.AcquireRecord()
	record.ID, record.Decision = c.decision.Trace(kind, c.traces), c.decisionID
	c.traces++
	record.Time = c.began
	record.Sealer = c.workspace.ids.Load().sealer
	record.Workspace = c.workspace.Name
	record.APIKey = c.key.name
	record.Kind = kind
	record.Key, record.Version, record.Revision = d.Key, d.Version, c.snapshot.Revision
	record.Reason, record.Row, record.Arm = decision.Reason.String(), rowOf(table, decision), table.Arm(decision)
	if c.logs(d) != definition.LogNone {
		c.addEvidence(table, decision)
	}
	return record
}

// logs returns the log policy of a definition's answers: the definition's own, else
// the workspace's, but never more than the caller allows.
func (c *call) logs(d *definition.Definition) definition.LogPolicy {
	policy := d.Log
	if policy == definition.Unset {
		policy = c.workspace.Log
	}
	if c.logCeiling != definition.Unset {
		policy = min(policy, c.logCeiling)
	}
	return policy
}

// readLogCeiling reads the log policy that the caller allows at most.
func (c *call) readLogCeiling() *wire.Error {
	values := c.r.Header[wire.HeaderLog]
	if len(values) == 0 {
		return nil
	}
	policy, known := definition.ParseLogPolicy(values[0])
	if !known || len(values) > 1 {
		return wire.Errorf(wire.InvalidRequest, wire.HeaderLog,
			"%s must be one of %s. It lowers what is recorded of the request, and never raises it.", wire.HeaderLog, strings.Join(definition.LogPolicies(), ", "))
	}
	c.logCeiling = policy
	return nil
}

// rowOf returns the id of the row that decided, empty if it was the default.
func rowOf(table *rules.Table, decision rules.Decision) string {
	if decision.Row < 0 {
		return ""
	}
	return table.Rows()[decision.Row].ID
}

// noteAlias adds a note of the name that the caller has asked for, if it is an alias, so
// that it can be found who still needs it.
func (c *call) noteAlias(record *trace.Record, d *definition.Definition, name string) {
	if name != d.Key && c.logs(d) != definition.LogNone {
		record.Notes = append(record.Notes, "asked as "+name)
	}
}

// noteVariables adds notes of empty and undeclared variables, and adds the
// configurations that variables were taken from to the evidence of the answer.
func (c *call) noteVariables(record *trace.Record, d *definition.Definition) {
	if c.logs(d) == definition.LogNone {
		return
	}
	for _, config := range c.values.Read() {
		c.evidence.trail.Ask(config.Table(), &c.binding)
	}
	for _, name := range c.values.Empty() {
		record.Notes = append(record.Notes, "variables."+name+": empty")
	}
	if n := c.values.Undeclared(); n > 0 {
		var room [triedUndeclared][]byte
		record.Notes = append(record.Notes, undeclaredNote(n, c.values.AppendUndeclared(room[:0])))
	}
}

// keep keeps the record of an answer until the whole request has succeeded. It
// drops the record of a definition whose policy is LogNone.
func (c *call) keep(record *trace.Record, d *definition.Definition) {
	c.answered++
	c.lastTrace = record.ID
	record.Status = http.StatusOK
	policy := c.logs(d)
	if policy == definition.LogNone {
		trace.ReleaseRecord(record)
		return
	}
	c.recordEvidence(record)
	record.SharesContent = policy == definition.LogContent
	c.records = append(c.records, record)
}

// completeRecords adds the request to the traces of its keys, and redacts them. No
// part of the request is read for them afterwards.
func (c *call) completeRecords() {
	if len(c.records) == 0 {
		return
	}
	c.addRequestToAll()
	for _, record := range c.records {
		c.workspace.redactAnswer(record)
	}
}

// giveRecords passes the traces of a request's keys to the recorder, which owns them
// from then on.
func (c *call) giveRecords() {
	if len(c.records) == 0 {
		return
	}
	records := c.records
	c.records = c.records[:0] // the recorder owns them, even if it panics
	c.workspace.Store.Recorder.Evaluations(records)
	clear(records)
}

// dropRecords releases the traces of a request that failed.
func (c *call) dropRecords() {
	for i, record := range c.records {
		trace.ReleaseRecord(record)
		c.records[i] = nil
	}
	c.records = c.records[:0]
}
