package gateway

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/wire"
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
		return dst, c.storable(record), nil
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
	body, err := results.answer()
	if err != nil {
		c.deliver(err.Status, body, time.Now())
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

// answer returns the answer to the batch, and an error if no report is valid.
func (r *results) answer() (body []byte, err *wire.Error) {
	body = []byte{'{'}
	if r.failed == len(r.answers) {
		err = wire.Errorf(wire.InvalidRequest, "", "No report of the batch is valid. The first: %s", r.firstErr.Message)
		body = err.AppendJSON(body[:0])
		body[len(body)-1] = ','
	}
	body = append(body, `"results":[`...)
	for i, answer := range r.answers {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, answer...)
	}
	body = append(body, `],"failed":`...)
	return append(strconv.AppendInt(body, int64(r.failed), 10), '}'), err
}
