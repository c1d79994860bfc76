package gateway

import (
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/trace"
)

// retryStore is the Retry-After of a request that the store could not serve.
const retryStore = 2 * time.Second

// report takes a metrics record, and answers when the record is on disk.
func (c *call) report() *wire.Error {
	key, err := wire.IdempotencyKey(c.r.Header)
	if err != nil {
		return err
	}
	record, id, kind, err := c.readReport()
	if err != nil {
		return err
	}
	ignored, err := record.Apply(kind)
	if err != nil {
		return err
	}
	if c.logCeiling != definition.Unset && c.logCeiling < definition.LogContent && record.LLMResponse != nil {
		record.LLMResponse = nil
		ignored = append(ignored, "llm_response")
	}
	unattached := ""
	if kind == trace.KindMetrics && record.TraceID == nil {
		unattached = id.String()
	}
	c.out = wire.AppendMetricsAnswer(c.out[:0], unattached, ignored)
	if key != "" {
		if err := c.claim(key); err != nil {
			return err
		}
		c.reply.TraceID, c.reply.Time, c.reply.Status, c.reply.Body = id, c.began, http.StatusOK, c.out
	}
	earlier, failure := c.storeReport(record, id)
	switch {
	case failure != nil:
		c.info.traceID[0] = id.String()
		level := zap.WarnLevel
		if stats := c.workspace.Store.Recorder.Stats(); isDown(&stats) {
			level = zap.DebugLevel // the log says so once, and on a full disk it must not grow
		}
		c.workspace.Logger.Log(level, "a metrics record could not be stored", zap.String("trace_id", c.info.traceID[0]), zap.Error(failure))
		err := wire.Errorf(wire.StoreUnavailable, "", "The record could not be stored. Send it again.")
		err.RetryAfter = retryStore
		err.TraceID = c.info.traceID[0]
		return err
	case earlier != nil:
		return c.replay(earlier).err
	}
	c.unclaim()
	c.info.traceID[0] = id.String()
	c.w.Header()[wire.HeaderTraceID] = c.info.traceID[:]
	c.write(c.out)
	return nil
}

// storeReport stores a record and, if the request has an idempotency key, the reply
// to it. If the key already has a reply, it stores neither and returns that reply.
func (c *call) storeReport(record *wire.MetricsRecord, id trace.ID) (earlier *trace.Reply, err error) {
	recorder := c.workspace.Store.Recorder
	switch {
	case !record.Empty():
		stored := &trace.Metrics{
			TraceID: id, Workspace: c.workspace.Name, APIKey: c.key.name, Time: c.began,
			Score: record.Score, Latency: record.Latency, RoundtripTime: record.RoundtripTime,
			LLMResponse: record.LLMResponse, ChainID: record.ChainID, ConversationID: record.ConversationID,
			Metadata: record.Metadata, Reply: c.reply,
		}
		if e := record.Economics; e != nil {
			stored.PromptTokens, stored.CompletionTokens, stored.TotalTokens = &e.PromptTokens, &e.CompletionTokens, &e.TotalTokens
		}
		c.workspace.redactReport(stored)
		err = recorder.Metrics(c.r.Context(), stored)
	case c.reply != nil:
		err = recorder.Keep(c.r.Context(), c.reply)
	}
	if err != nil || c.reply == nil {
		return nil, err
	}
	return c.reply.Earlier, nil
}

// readReport parses the record and finds the trace that it belongs to.
func (c *call) readReport() (record *wire.MetricsRecord, id trace.ID, kind trace.Kind, err *wire.Error) {
	if c.route.kind == 0 {
		record, err = c.request.Metrics()
	} else {
		record, err = c.request.TraceMetrics(c.r.URL.RawQuery)
	}
	if err != nil {
		return nil, id, 0, err
	}
	named := c.pathID
	if record.TraceID != nil {
		if named != "" && !sameTrace(named, *record.TraceID) {
			return nil, id, 0, wire.Errorf(wire.UnknownTrace, "trace_id", "The path names another trace than the record does.")
		}
		named = *record.TraceID
	}
	if c.pathID == "" && record.TraceID == nil {
		return record, c.workspace.newID(trace.KindMetrics, c.began), trace.KindMetrics, nil
	}
	id, ok := trace.ParseID(named)
	if ok {
		kind, ok = c.workspace.verifyID(id)
	}
	if !ok || c.route.kind != 0 && c.route.kind != kind {
		return nil, id, 0, wire.Errorf(wire.UnknownTrace, "trace_id", "There is no such trace here. A trace id is the trace_id of an answer, and belongs to the workspace of its key.")
	}
	if record.TraceID == nil {
		record.TraceID = &named
	}
	return record, id, kind, nil
}

func sameTrace(a, b string) bool {
	first, ok := trace.ParseID(a)
	second, okToo := trace.ParseID(b)
	return ok && okToo && first == second
}
