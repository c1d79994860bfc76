package adminapi

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
)

// The number of traces of a page.
const (
	DefaultTraces = 50   // without limit
	MaxTraces     = 1000 // the largest limit
)

const (
	// listBudget bounds the search for a page. A filter that few traces pass
	// gets a short page, with the place to go on from.
	listBudget = 60 * time.Millisecond

	// maxFollowed bounds the rows that one request of following looks at.
	maxFollowed = 1000
)

// serveTraces answers GET /cadenza/traces: the newest traces that pass a filter
// or, with ?follow, those written since. DELETE /cadenza/traces is serveErase's.
func serveTraces(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodDelete {
		return serveErase(w, r)
	}
	q, err := newTraceQuery(r, slices.Concat(filterParameters, []string{"limit", "before", "follow"})...)
	if err != nil {
		return err
	}
	reader, err := q.workspace.openTraces(r.Context())
	if err != nil {
		return err
	}
	defer reader.Close()
	if q.values.Has("follow") {
		if q.values.Has("limit") || q.values.Has("before") {
			return apiError(http.StatusBadRequest, "follow can't be combined with limit or before")
		}
		return q.follow(w, r, reader)
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
	// The number is read before the page, so that following from it misses no
	// trace.
	last, err := reader.LastSeq(r.Context())
	if err != nil {
		return unreadable(err)
	}
	page, err := reader.Traces(r.Context(), q.filter, before, limit, listBudget)
	if err != nil {
		return unreadable(err)
	}
	out := appendTraces([]byte(`{"traces":`), page.Records)
	if !page.Next.IsZero() {
		out = append(page.Next.AppendTo(append(out, `,"next":"`...)), '"')
	}
	out = strconv.AppendBool(append(out, `,"complete":`...), page.Complete)
	out = strconv.AppendInt(append(out, `,"follow":`...), last, 10)
	return writeText(w, append(out, "}\n"...))
}

// follow answers with the traces written after the number in ?follow.
func (q *traceQuery) follow(w http.ResponseWriter, r *http.Request, reader *sqlite.Reader) error {
	after, err := strconv.ParseInt(q.values.Get("follow"), 10, 64)
	if err != nil || after < 0 {
		return apiError(http.StatusBadRequest, "follow must be the number in follow of an earlier answer, this is %q", q.values.Get("follow"))
	}
	records, last, err := reader.Follow(r.Context(), q.filter, after, maxFollowed)
	if err != nil {
		return unreadable(err)
	}
	out := appendTraces([]byte(`{"traces":`), records)
	out = strconv.AppendInt(append(out, `,"follow":`...), last, 10)
	return writeText(w, append(out, "}\n"...))
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
		return nil, unreadable(err)
	}
	return reader, nil
}

// unreadable returns the error for a store that can't be read.
func unreadable(err error) error {
	return apiError(http.StatusServiceUnavailable, "the traces can't be read: %v", err)
}

func writeText(w http.ResponseWriter, text []byte) error {
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write(text)
	return err
}
