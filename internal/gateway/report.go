package gateway

import (
	"context"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
)

// retryStore is the Retry-After of a request that the store could not serve.
const retryStore = 2 * time.Second

// repeatedAnswer is the answer to a report on a unit whose event id is stored.
const repeatedAnswer = `{"ok":true,"repeated":true}`

// report takes a metrics record, and answers when the record is on disk.
func (c *call) report() *wire.Error {
	key, err := wire.IdempotencyKey(c.r.Header)
	if err != nil {
		return err
	}
	record, kind, err := c.readReport()
	if err != nil {
		return err
	}
	if c.out, err = c.appendStored(c.out[:0], record, kind); err != nil {
		return err
	}
	id := record.TraceID
	if key != "" {
		if err := c.claim(key); err != nil {
			return err
		}
		c.reply.TraceID, c.reply.Decision = id, record.Decision
		c.reply.Time, c.reply.Status, c.reply.Body = c.began, http.StatusOK, c.out
	}
	about := zap.String("trace_id", id.String())
	if kind == trace.KindDecision {
		about = zap.String("decision_id", record.Decision.String())
		c.info.decisionID[0] = about.String
	} else {
		c.info.traceID[0] = about.String
	}
	earlier, failure := c.storeReport(record)
	switch {
	case failure != nil:
		return c.notStored(about, failure)
	case earlier != nil:
		return c.replay(earlier).err
	}
	c.traceReport(record)
	if record.Repeated && c.reply == nil { // or the answer that is kept is the one to give
		c.out = append(c.out[:0], repeatedAnswer...)
	}
	c.unclaim()
	switch {
	case record.Repeated:
	case kind == trace.KindDecision:
		c.w.Header()[wire.HeaderDecisionID] = c.info.decisionID[:]
	default:
		c.w.Header()[wire.HeaderTraceID] = c.info.traceID[:]
	}
	c.deliver(http.StatusOK, c.out, time.Now())
	return nil
}

// notStored logs that a record, or a batch of them, could not be stored.
func (c *call) notStored(about zap.Field, failure error) *wire.Error {
	level := zap.WarnLevel
	if stats := c.workspace.Store.Recorder.Stats(); isDown(&stats) {
		level = zap.DebugLevel // the log says so once, and on a full disk it must not grow
	}
	c.workspace.Logger.Log(level, "a metrics record could not be stored", about, zap.Error(failure))
	err := wire.Errorf(wire.StoreUnavailable, "", "The record could not be stored. Send it again.")
	err.RetryAfter = retryStore
	err.TraceID = c.info.traceID[0]
	return err
}

// appendStored reduces a record to what its subject takes, and appends the answer to it when
// it is stored.
func (c *call) appendStored(dst []byte, record *wire.MetricsRecord, kind trace.Kind) ([]byte, *wire.Error) {
	ignored, err := record.Apply(kind)
	if err != nil {
		return dst, err
	}
	if c.logCeiling != definition.Unset && c.logCeiling < definition.LogContent && record.LLMResponse != nil {
		record.LLMResponse = nil
		ignored = append(ignored, "llm_response")
	}
	unattached := ""
	if kind == trace.KindMetrics && record.NamedTrace == nil && record.Unit == "" {
		unattached = record.TraceID.String()
	}
	return wire.AppendMetricsAnswer(dst, unattached, ignored), nil
}

// storeReport stores a record and, if the request has an idempotency key, the reply
// to it. If the key already has a reply, it stores neither and returns that reply.
func (c *call) storeReport(record *wire.MetricsRecord) (earlier *trace.Reply, err error) {
	recorder := c.workspace.Store.Recorder
	switch {
	case !record.Empty():
		stored := c.workspace.storable(record, c.key.name, c.began)
		stored.Reply = c.reply
		err = recorder.Metrics(c.r.Context(), stored)
	case c.reply != nil:
		err = recorder.Keep(c.r.Context(), c.reply)
	}
	if err != nil || c.reply == nil {
		return nil, err
	}
	return c.reply.Earlier, nil
}

// storable returns a record as it is stored. by is the name of the reporter's API key.
func (w *Workspace) storable(record *wire.MetricsRecord, by string, at time.Time) *trace.Metrics {
	stored := &record.Metrics
	stored.Workspace, stored.APIKey, stored.Time = w.Name, by, at
	w.redactReport(stored)
	return stored
}

// Report stores a report on a trace that a visitor of the console made, as that of an app.
// by stands for the API key. ignored are the members that the trace does not take.
func (w *Workspace) Report(ctx context.Context, by string, m *trace.Metrics) (ignored []string, err error) {
	kind, ok := w.verifyID(m.TraceID)
	if !ok {
		return nil, wire.Errorf(wire.UnknownTrace, "trace_id", "There is no such trace here.")
	}
	record := &wire.MetricsRecord{Metrics: *m}
	ignored, refused := record.Apply(kind)
	if refused != nil {
		return nil, refused
	}
	return ignored, w.Store.Recorder.Metrics(ctx, w.storable(record, by, time.Now()))
}

// HashInput returns the hash that traces have in place of a value of a field.
func (w *Workspace) HashInput(field, text string) string {
	return string(w.HashOf(nil, field, text))
}

// HashOf appends such a hash.
func (w *Workspace) HashOf(dst []byte, field, text string) []byte {
	return w.ids.Load().hasher.Append(dst, field, text)
}

// readReport parses the record, and finds the trace or the decision that it belongs
// to. The kind of the latter is KindDecision.
func (c *call) readReport() (record *wire.MetricsRecord, kind trace.Kind, err *wire.Error) {
	if c.pathID == "" {
		record, err = c.body.Metrics()
	} else {
		record, err = c.body.TraceMetrics(c.r.URL.RawQuery)
	}
	if err != nil {
		return nil, 0, err
	}
	kind, err = c.subjectOf(record)
	return record, kind, err
}

// subjectOf finds the trace, the decision or the unit that a record is about.
func (c *call) subjectOf(record *wire.MetricsRecord) (kind trace.Kind, err *wire.Error) {
	switch {
	case record.NamedUnit != nil && c.pathID != "":
		err = wire.Errorf(wire.InvalidRequest, "unit", "The path names a trace and the record a unit. Send a report on a unit to /v1/metrics.")
	case record.NamedUnit != nil:
		kind, err = trace.KindMetrics, c.workspace.unitOfReport(c.snapshot.Model, &c.evaluation.binding, record, c.began, false)
	case record.NamedDecision != nil:
		kind, err = c.decisionOfReport(record)
	case record.NamedTrace == nil && c.pathID == "":
		kind = trace.KindMetrics
		record.TraceID = c.workspace.newID(kind, c.began)
	default:
		kind, err = c.traceOfReport(record)
	}
	return kind, err
}

// unitOfReport replaces the unit that a record names by the hash that traces have of it,
// and gives the record an id of its own. history takes events of any age.
func (w *Workspace) unitOfReport(model *rules.Model, binding *rules.Binding, record *wire.MetricsRecord, now time.Time, history bool) *wire.Error {
	if err := record.CheckHappened(now, history); err != nil {
		return err
	}
	hash, err := model.AppendUnit(nil, binding, record.UnitField, record.NamedUnit, w.ids.Load().hasher.Append)
	if err != nil {
		param := "unit." + wire.Clip(record.UnitField)
		return wire.Errorf(wire.InvalidRequest, param, "%q %v.", param, err)
	}
	record.Unit, record.NamedUnit, record.TraceID = string(hash), nil, w.newID(trace.KindMetrics, now)
	return nil
}

// decisionOfReport finds the decision that a record names.
func (in *incoming) decisionOfReport(record *wire.MetricsRecord) (trace.Kind, *wire.Error) {
	if in.pathID != "" {
		return 0, wire.Errorf(wire.InvalidRequest, "decision_id", "The path names a trace and the record a decision. Send a record on a decision to /v1/metrics.")
	}
	id, ok := trace.ParseID(*record.NamedDecision)
	if !ok || !in.workspace.verifyDecision(id) {
		return 0, wire.Errorf(wire.UnknownTrace, "decision_id", "There is no such decision here. A decision id is the Cadenza-Decision-Id of an answer, and belongs to the workspace of its key. To report on one trace, send its id as \"trace_id\".")
	}
	record.Decision = id
	return trace.KindDecision, nil
}

// traceOfReport finds the trace that a record or the path names.
func (in *incoming) traceOfReport(record *wire.MetricsRecord) (trace.Kind, *wire.Error) {
	named := in.pathID
	if record.NamedTrace != nil {
		if named != "" && !sameTrace(named, *record.NamedTrace) {
			return 0, wire.Errorf(wire.UnknownTrace, "trace_id", "The path names another trace than the record does.")
		}
		named = *record.NamedTrace
	}
	id, _ := trace.ParseID(named)
	kind, ok := in.workspace.verifyID(id)
	switch {
	case ok && (in.route.kind == nil || in.route.kind.Trace == kind):
		record.TraceID = id
		return kind, nil
	case in.workspace.verifyDecision(id):
		return 0, wire.Errorf(wire.UnknownTrace, "trace_id", "This is the id of a decision. To report on all of its traces, send it to /v1/metrics as \"decision_id\".")
	}
	return 0, wire.Errorf(wire.UnknownTrace, "trace_id", "There is no such trace here. A trace id is the trace_id of an answer, and belongs to the workspace of its key.")
}

func sameTrace(a, b string) bool {
	first, ok := trace.ParseID(a)
	second, okToo := trace.ParseID(b)
	return ok && okToo && first == second
}
