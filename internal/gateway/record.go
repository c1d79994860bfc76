package gateway

import (
	"net/http"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
)

// newRecord begins the trace of one answer of the request's decision. If the default of a
// table of variants decided, the caller adds the arm.
func (a *answers) newRecord(d *definition.Definition, table *rules.Table, decision rules.Decision) *trace.Record {
	record := trace.AcquireRecord()
	record.ID, record.Decision = a.decision.Trace(d.Kind.Trace, a.traces), a.decisionID
	a.traces++
	record.Time = a.began
	record.Sealer = a.workspace.ids.Load().sealer
	record.Workspace = a.workspace.Name
	record.APIKey = a.key.name
	record.Kind = d.Kind.Trace
	record.Key, record.Version, record.Revision = d.Key, d.Version, a.snapshot.Revision
	record.Reason, record.Row, record.Arm = decision.Reason.String(), rowOf(table, decision), table.Arm(decision)
	if a.logs(d) != definition.LogNone {
		a.addEvidence(table)
	}
	return record
}

// recordValue begins the trace of the value of a remote configuration that was picked.
func (a *answers) recordValue(p *picked) *trace.Record {
	record := a.newRecord(p.definition, p.definition.Table(), p.decision)
	if a.logs(p.definition) == definition.LogContent {
		record.Response = append(record.Response[:0], p.definition.Answer(p.decision)...)
	}
	a.noteAlias(record, p.definition, p.name)
	return record
}

// logs returns the log policy of a definition's answers: the definition's policy, or else
// the workspace's, lowered to the policy that the caller allows.
func (in *incoming) logs(d *definition.Definition) definition.LogPolicy {
	policy := d.Log
	if policy == definition.Unset {
		policy = in.workspace.Log
	}
	if in.logCeiling != definition.Unset {
		policy = min(policy, in.logCeiling)
	}
	return policy
}

// readLogCeiling reads the highest log policy that the caller allows.
func (in *incoming) readLogCeiling() *wire.Error {
	values := in.r.Header[wire.HeaderLog]
	if len(values) == 0 {
		return nil
	}
	policy, known := definition.ParseLogPolicy(values[0])
	if !known || len(values) > 1 {
		return wire.Errorf(wire.InvalidRequest, wire.HeaderLog,
			"%s must be one of %s. It lowers what is recorded of the request, and never raises it.", wire.HeaderLog, strings.Join(definition.LogPolicies(), ", "))
	}
	in.logCeiling = policy
	return nil
}

// rowOf returns the id of the row that decided, empty if it was the default.
func rowOf(table *rules.Table, decision rules.Decision) string {
	if decision.Row < 0 {
		return ""
	}
	return table.Rows()[decision.Row].ID
}

// noteAlias adds a note of the name in the request if it is an alias, so that operators can
// find out who still uses the alias.
func (in *incoming) noteAlias(record *trace.Record, d *definition.Definition, name string) {
	if name != d.Key && in.logs(d) != definition.LogNone {
		record.Notes = append(record.Notes, "asked as "+name)
	}
}

// noteVariables adds notes of empty and undeclared variables, and adds the
// configurations that variables were taken from to the evidence of the answer.
func (a *answers) noteVariables(record *trace.Record, d *definition.Definition) {
	if a.logs(d) == definition.LogNone {
		return
	}
	for _, config := range a.values.Read() {
		a.evidence.trail.Ask(config.Table(), &a.binding)
	}
	for _, name := range a.values.Empty() {
		record.Notes = append(record.Notes, "variables."+name+": empty")
	}
	if n := a.values.Undeclared(); n > 0 {
		var room [triedUndeclared][]byte
		record.Notes = append(record.Notes, undeclaredNote(n, a.values.AppendUndeclared(room[:0])))
	}
}

// keep keeps the record of an answer until the whole request has succeeded. If the
// definition's policy is LogNone it drops the record.
func (a *answers) keep(record *trace.Record, p *picked) {
	a.answered++
	a.lastTrace = record.ID
	record.Status = http.StatusOK
	policy := a.logs(p.definition)
	if policy == definition.LogNone {
		trace.ReleaseRecord(record)
		return
	}
	a.recordEvidence(record)
	record.SharesContent = policy == definition.LogContent
	if p.enters {
		a.exposures.entering = append(a.exposures.entering, entering{p.hash, record.ID, len(a.records)})
	}
	a.records = append(a.records, record)
}

// completeRecords adds the request to the traces of its keys, and redacts them. No
// part of the request is read for them afterwards.
func (a *answers) completeRecords() {
	if len(a.records) == 0 {
		return
	}
	a.addRequestToAll()
	for _, record := range a.records {
		a.workspace.redactAnswer(record)
	}
}

// giveRecords passes the traces of a request's keys to the recorder, which owns them
// from then on, and counts the answers that have none.
func (a *answers) giveRecords() {
	if records := a.records; len(records) > 0 {
		a.records = a.records[:0] // the recorder owns them, even if it panics
		a.workspace.Store.Recorder.Evaluations(records)
		if len(a.exposures.entering) > 0 {
			a.enterExposures(records)
		}
		clear(records)
	}
	for _, e := range a.exposures.counted {
		a.workspace.Store.Recorder.Counted(e, a.began)
	}
}

// dropRecords releases the traces of a request that failed.
func (a *answers) dropRecords() {
	for i, record := range a.records {
		trace.ReleaseRecord(record)
		a.records[i] = nil
	}
	a.records = a.records[:0]
}
