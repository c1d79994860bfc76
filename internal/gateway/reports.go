package gateway

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
)

// reports takes a metrics record, or a batch of them.
func (c *call) reports() outcome {
	lines, batch := c.body.Batch(c.r.Header)
	if !batch {
		return allOrNothing((*call).report)(c)
	}
	if len(c.r.Header[wire.HeaderIdempotencyKey]) > 0 {
		return refused(wire.Errorf(wire.InvalidRequest, wire.HeaderIdempotencyKey, "A batch takes no %s. Give reports on units an \"event_id\", and send others one by one.", wire.HeaderIdempotencyKey))
	}
	var stored []*wire.MetricsRecord
	results, err := newResults(c.body, lines, func(dst []byte, record *wire.MetricsRecord) ([]byte, *trace.Metrics, *wire.Error) {
		kind, err := c.subjectOf(record)
		if err == nil {
			dst, err = c.appendStored(dst, record, kind)
		}
		if err != nil || record.Empty() {
			return dst, nil, err
		}
		stored = append(stored, record)
		return dst, c.workspace.storable(record, c.key.name, c.began), nil
	})
	if err != nil {
		return refused(err)
	}
	if failure := results.store(c.r.Context(), c.workspace); failure != nil {
		return refused(c.notStored(zap.Int("reports", len(results.stored)), failure))
	}
	for _, record := range stored {
		c.traceReport(record)
	}
	body := results.answer()
	if err := results.noneValid(); err != nil {
		refusal := err.AppendJSON(nil)
		c.deliver(err.Status, append(append(refusal[:len(refusal)-1], ','), body[1:]...), time.Now())
		return outcome{err, answered} // the metrics count the code
	}
	c.deliver(http.StatusOK, body, time.Now())
	return outcome{end: answered}
}

// results are what became of the reports of a batch, in order.
type results struct {
	answers  [][]byte         // to each
	stored   []*trace.Metrics // those that are valid and have something to store
	places   []int            // of these among the answers
	failed   int
	firstErr *wire.Error
}

// newResults reads the reports of a batch. take returns the answer to one when it is stored,
// appended to dst, and what to store, if anything.
func newResults(body *wire.Request, lines bool, take func(dst []byte, record *wire.MetricsRecord) ([]byte, *trace.Metrics, *wire.Error)) (*results, *wire.Error) {
	var r results
	return &r, body.EachReport(lines, func(record *wire.MetricsRecord, err *wire.Error) {
		var answer []byte
		var m *trace.Metrics
		if err == nil {
			answer, m, err = take(nil, record)
		}
		switch {
		case err != nil:
			if r.failed++; r.firstErr == nil {
				r.firstErr = err
			}
			answer = append(err.AppendObject([]byte(`{"error":`)), '}')
		case m != nil:
			r.stored, r.places = append(r.stored, m), append(r.places, len(r.answers))
		}
		r.answers = append(r.answers, answer)
	})
}

// store stores the valid reports in one commit.
func (r *results) store(ctx context.Context, w *Workspace) error {
	if len(r.stored) == 0 {
		return nil
	}
	if err := w.Store.Recorder.AllMetrics(ctx, r.stored); err != nil {
		return err
	}
	for i, m := range r.stored {
		if m.Repeated {
			r.answers[r.places[i]] = []byte(repeatedAnswer)
		}
	}
	return nil
}

// noneValid returns an error if no report is valid.
func (r *results) noneValid() *wire.Error {
	if r.failed < len(r.answers) {
		return nil
	}
	return wire.Errorf(wire.InvalidRequest, "", "No report of the batch is valid. The first: %s", r.firstErr.Message)
}

// answer returns what became of each report.
func (r *results) answer() []byte {
	body := []byte(`{"results":[`)
	for i, answer := range r.answers {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, answer...)
	}
	body = append(body, `],"failed":`...)
	return append(strconv.AppendInt(body, int64(r.failed), 10), '}')
}

// ImportReports stores a batch of reports on units, one on each line, which may have
// happened at any time in the past. They have no API key. The answer is that to a batch of
// which some are valid, also if none is.
func (w *Workspace) ImportReports(rw http.ResponseWriter, r *http.Request, limit int64) (answer []byte, err *wire.Error) {
	snapshot := w.Source.Snapshot()
	if snapshot.Awaited {
		return nil, noDefinitions()
	}
	body, now, binding := wire.AcquireRequest(), time.Now(), new(rules.Binding)
	defer body.Release()
	if err := body.ReadBody(rw, r, limit, w.BodyTimeout, 1, nil); err != nil {
		return nil, err
	}
	results, err := newResults(body, true, func(dst []byte, record *wire.MetricsRecord) ([]byte, *trace.Metrics, *wire.Error) {
		if record.NamedUnit == nil {
			return dst, nil, wire.Errorf(wire.InvalidRequest, "unit", `"unit" is missing: only reports on units are imported.`)
		}
		if err := w.unitOfReport(snapshot.Model, binding, record, now, true); err != nil {
			return dst, nil, err
		}
		return wire.AppendMetricsAnswer(dst, "", nil), w.storable(record, "", now), nil
	})
	if err != nil {
		return nil, err
	}
	if failure := results.store(r.Context(), w); failure != nil {
		return nil, wire.Errorf(wire.StoreUnavailable, "", "the reports could not be stored: %v", failure)
	}
	return results.answer(), nil
}
