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

// How many traces a list has, by default and at most.
const (
	DefaultTraces = 50
	MaxTraces     = 1000
)

const (
	// listBudget bounds how long a list is searched for. A filter that few
	// traces pass gets a short page, and where to go on.
	listBudget = 60 * time.Millisecond

	// maxFollowed bounds how many written rows one step of following looks at.
	maxFollowed = 1000
)

// serveTraces answers GET /cadenza/traces, the newest traces that pass a filter
// or, with ?follow, what was written since; and DELETE /cadenza/traces, which
// erases what belongs to a conversation or bears a metadata value.
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
			return apiError(http.StatusBadRequest, "limit and before are of a list: follow takes neither")
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
			return apiError(http.StatusBadRequest, "before must be the trace id that stood in next, this is %q", text)
		}
	}
	// First, so that who follows from here on misses nothing.
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

// follow answers with what was written after a point.
func (q *traceQuery) follow(w http.ResponseWriter, r *http.Request, reader *sqlite.Reader) error {
	after, err := strconv.ParseInt(q.values.Get("follow"), 10, 64)
	if err != nil || after < 0 {
		return apiError(http.StatusBadRequest, "follow must be the number that stood in follow, this is %q", q.values.Get("follow"))
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

// openTraces opens the workspace's store to read it, for one request: the file
// may be another at the next.
func (w *Workspace) openTraces(ctx context.Context) (*sqlite.Reader, error) {
	reader, err := sqlite.OpenReader(ctx, w.Store)
	if err != nil {
		return nil, unreadable(err)
	}
	return reader, nil
}

func unreadable(err error) error {
	return apiError(http.StatusServiceUnavailable, "the traces can't be read: %v", err)
}

func writeText(w http.ResponseWriter, text []byte) error {
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write(text)
	return err
}
