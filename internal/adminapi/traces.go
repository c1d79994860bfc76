package adminapi

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
)

// The number of traces of a page.
const (
	DefaultTraces = 50   // without limit
	MaxTraces     = 1000 // the largest limit
)

// listBudget bounds the search for a page. A filter that few traces pass gets a
// short page, with the place to go on from.
const listBudget = 60 * time.Millisecond

// serveTraces answers GET /cadenza/traces: the newest traces that pass a filter
// or, with ?follow, those written since. DELETE /cadenza/traces is serveErase's.
func serveTraces(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodDelete {
		return serveErase(w, r)
	}
	q, err := newTraceQuery(r, slices.Concat(filterParameters, []string{"limit", "before", "follow", "wait"})...)
	if err != nil {
		return err
	}
	if q.values.Has("follow") {
		return q.follow(w, r)
	}
	if q.values.Has("wait") {
		return apiError(http.StatusBadRequest, "wait goes with follow: a list does not wait")
	}
	limit := DefaultTraces
	if text := q.values.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > MaxTraces {
			return apiError(http.StatusBadRequest, "limit must be a number from 1 to %d, this is %q", MaxTraces, text)
		}
	}
	var before trace.ID
	if text := q.values.Get("before"); text != "" {
		var ok bool
		if before, ok = trace.ParseID(text); !ok {
			return apiError(http.StatusBadRequest, "before must be the trace id in next of the page before it, this is %q", text)
		}
	}
	reader, err := q.workspace.openTraces(r.Context())
	if err != nil {
		return err
	}
	defer reader.Close()
	// The number is read before the page, so that following from it misses no
	// trace.
	mark := q.workspace.Mark()
	calls, err := q.workspace.selected(r.Context(), reader, &q.filter, q.workspace.running(0, mark))
	if err != nil {
		return err
	}
	last, err := reader.LastSeq(r.Context())
	if err != nil {
		return q.workspace.unreadable(err)
	}
	page, err := reader.Traces(r.Context(), q.filter, before, limit, listBudget)
	if err != nil {
		return q.workspace.unreadable(err)
	}
	addRunning(&page, calls, before, limit)
	out := appendTraces([]byte(`{"traces":`), page.Records)
	if !page.Next.IsZero() {
		out = append(page.Next.AppendTo(append(out, `,"next":"`...)), '"')
	}
	out = strconv.AppendBool(append(out, `,"complete":`...), page.Complete)
	out = strconv.AppendInt(append(out, `,"follow":`...), followPoint(last, mark), 10)
	return writeText(w, append(q.workspace.appendWaiting(out), "}\n"...))
}

// appendWaiting appends how many records wait to be stored, while the store takes
// none: no list has them.
func (w *Workspace) appendWaiting(out []byte) []byte {
	records, reason := w.Waiting()
	if reason == "" {
		return out
	}
	out = strconv.AppendInt(append(out, `,"waiting":{"records":`...), int64(records), 10)
	return append(jsontext.AppendString(append(out, `,"reason":`...), reason), '}')
}

func appendTraces(out []byte, records []*trace.Record) []byte {
	out = append(out, '[')
	for i, record := range records {
		if i > 0 {
			out = append(out, ',')
		}
		out = record.AppendJSON(out)
	}
	return append(out, ']')
}

// openTraces opens the workspace's store for one request. The file may be
// replaced before the next.
func (w *Workspace) openTraces(ctx context.Context) (*sqlite.Reader, error) {
	reader, err := sqlite.OpenReader(ctx, w.Store)
	if err != nil {
		return nil, w.unreadable(err)
	}
	return reader, nil
}

// unreadable returns the error for a store that can't be read.
func (w *Workspace) unreadable(err error) error {
	if records, reason := w.Waiting(); reason != "" {
		return apiError(http.StatusServiceUnavailable, "the traces can't be read: %v; %d records wait to be stored: %s", err, records, reason)
	}
	return apiError(http.StatusServiceUnavailable, "the traces can't be read: %v", err)
}

func writeText(w http.ResponseWriter, text []byte) error {
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write(text)
	return err
}
