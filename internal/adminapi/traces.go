package adminapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/trace"
)

// The number of traces of a page.
const (
	DefaultTraces = 50   // without limit
	MaxTraces     = 1000 // the largest limit
)

// listBudget bounds the search for a page. A filter that few traces pass gets a
// short page, with the place at which the next page begins.
const listBudget = 60 * time.Millisecond

// ListedTrace is a trace of a list.
type ListedTrace struct {
	trace.Record
	Score *float64 // the last one that was reported
}

// UnmarshalJSON reads a trace with its score.
func (t *ListedTrace) UnmarshalJSON(text []byte) error {
	var reported struct {
		Score *float64 `json:"score"`
	}
	if err := json.Unmarshal(text, &reported); err != nil {
		return err
	}
	t.Score = reported.Score
	return t.Record.UnmarshalJSON(text)
}

// serveTraces answers GET /cadenza/traces: the newest traces that pass a filter, the
// traces with the lowest scores (?sort=score), the dearest (?sort=cost), the slowest
// (?sort=latency) or the traces written since (?follow).
func serveTraces(w http.ResponseWriter, r *http.Request) error {
	q, err := newTraceQuery(r, slices.Concat(filterParameters, []string{"sort", "limit", "before", "follow", "wait", "format"})...)
	if err != nil {
		return err
	}
	switch format := q.values.Get("format"); {
	case format != "" && format != "jsonl":
		return apiError(http.StatusBadRequest, "format must be jsonl or left out, this is %q", format)
	case format != "" && q.values.Has("follow"):
		return apiError(http.StatusBadRequest, "follow can't be combined with format")
	case format != "" && !seesContent(r.Context()):
		return apiError(http.StatusForbidden, "lines have content: this needs the role %s", gateway.RoleEditor)
	}
	if q.values.Has("follow") {
		return q.follow(w, r)
	}
	if q.values.Has("wait") {
		return apiError(http.StatusBadRequest, "wait goes with follow: a list does not wait")
	}
	limit, err := q.limit(MaxTraces)
	if err != nil {
		return err
	}
	reader, err := q.workspace.openTraces(r.Context())
	if err != nil {
		return err
	}
	defer reader.Close()
	switch order := q.values.Get("sort"); order {
	case "", "time":
	case "score", "cost", "latency":
		return q.sorted(w, r, reader, limit)
	default:
		return apiError(http.StatusBadRequest, "sort must be time, the newest first, score, the lowest first, cost or latency, the highest first; this is %q", order)
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
	next := ""
	if !page.Next.IsZero() {
		next = page.Next.String()
	}
	return q.writePage(r.Context(), w, reader, &page, next, followPoint(last, mark))
}

// sorted answers with the traces with a reported score, the lowest first, or with those that
// cost most or took longest. It leaves out calls that are under way.
func (q *traceQuery) sorted(w http.ResponseWriter, r *http.Request, reader *sqlite.Reader, limit int) error {
	order, text := q.values.Get("sort"), q.values.Get("before")
	after, err := parsePlace(order, text)
	if err != nil {
		return apiError(http.StatusBadRequest, "before must be the next of the page before it, which was sorted by %s too; this is %q", order, text)
	}
	var page sqlite.Page
	var place *sqlite.Place
	switch order {
	case "cost":
		page, place, err = reader.Highest(r.Context(), q.filter, sqlite.ByCost, after, limit, listBudget)
	case "latency":
		page, place, err = reader.Highest(r.Context(), q.filter, sqlite.ByLatency, after, limit, listBudget)
	default:
		page, place, err = reader.Worst(r.Context(), q.filter, after, limit, listBudget)
	}
	if err != nil {
		return q.workspace.unreadable(err)
	}
	next := ""
	if place != nil {
		next = formatPlace(place)
	}
	return q.writePage(r.Context(), w, reader, &page, next, 0)
}

// writePage answers with a page, the place after it and, unless it is 0, the point to follow
// from.
func (q *traceQuery) writePage(ctx context.Context, w http.ResponseWriter, reader *sqlite.Reader, page *sqlite.Page, next string, follow int64) error {
	if q.values.Has("format") {
		return q.writeLines(ctx, w, reader, page)
	}
	out := appendTraces([]byte(`{"traces":`), page.Records, page.Scores)
	if next != "" {
		out = append(append(append(out, `,"next":"`...), next...), '"')
	}
	out = strconv.AppendBool(append(out, `,"complete":`...), page.Complete)
	if follow != 0 {
		out = strconv.AppendInt(append(out, `,"follow":`...), follow, 10)
	}
	return writeText(w, append(q.workspace.appendWaiting(out), "}\n"...))
}

// writeLines answers with the traces of a page as an export has them, in the page's order:
// with their content and the reports on them. The answer ends at some megabytes.
func (q *traceQuery) writeLines(ctx context.Context, w http.ResponseWriter, reader *sqlite.Reader, page *sqlite.Page) (err error) {
	var lines []byte
	for _, record := range page.Records {
		if len(lines) > maxLines {
			break
		}
		details, err := reader.Get(ctx, q.workspace.Name, record.ID)
		if errors.Is(err, sqlite.ErrNotFound) {
			continue // it is under way, or was deleted in between
		}
		if err != nil {
			return q.workspace.unreadable(err)
		}
		if lines, err = appendExported(lines, details.Record, nil, details.Metrics); err != nil {
			return err
		}
	}
	q.workspace.audited(ctx, AuditLook, fmt.Sprintf("%d traces of a list: %s", len(page.Records), q.workspace.hashedQuery(q.values)), "", "")
	w.Header().Set("Content-Type", wire.LinesType)
	w.Header().Set("Content-Disposition", `attachment; filename="traces.jsonl"`)
	_, err = w.Write(lines)
	return err
}

// maxLines bounds the lines of an answer, in bytes, but for its last line.
const maxLines = 32 << 20

// formatPlace returns the member next of a sorted page: SCORE_ID_ID, or VALUE_ID for other
// values.
func formatPlace(p *sqlite.Place) string {
	text := strconv.FormatFloat(p.Value, 'g', -1, 64)
	if !p.On.IsZero() {
		text += "_" + p.On.String()
	}
	return text + "_" + p.ID.String()
}

// parsePlace reads what formatPlace returns for a page of an order. The empty text is the
// beginning.
func parsePlace(order, text string) (*sqlite.Place, error) {
	if text == "" {
		return nil, nil
	}
	value, ids, _ := strings.Cut(text, "_")
	number, err := strconv.ParseFloat(value, 64)
	p := &sqlite.Place{Value: number}
	if order == "score" {
		var on string
		on, ids, _ = strings.Cut(ids, "_")
		err = errors.Join(err, p.On.UnmarshalText([]byte(on)))
	}
	return p, errors.Join(err, p.ID.UnmarshalText([]byte(ids)))
}

// appendWaiting appends how many records wait to be stored while the store takes no
// records. No list has these.
func (w *Workspace) appendWaiting(out []byte) []byte {
	records, reason := w.Store.Waiting()
	if reason == "" {
		return out
	}
	out = strconv.AppendInt(append(out, `,"waiting":{"records":`...), int64(records), 10)
	return append(jsontext.AppendString(append(out, `,"reason":`...), reason), '}')
}

// appendTraces appends an array of traces, with the scores that are known.
func appendTraces(out []byte, records []*trace.Record, scores map[trace.ID]float64) []byte {
	out = append(out, '[')
	for i, record := range records {
		if i > 0 {
			out = append(out, ',')
		}
		out = record.AppendJSON(out)
		if score, ok := scores[record.ID]; ok {
			out = strconv.AppendFloat(append(out[:len(out)-1], `,"score":`...), score, 'f', -1, 64)
			out = append(out, '}')
		}
	}
	return append(out, ']')
}

// openTraces opens the workspace's store for one request. The file may be
// replaced before the next one.
func (w *Workspace) openTraces(ctx context.Context) (*sqlite.Reader, error) {
	reader, err := sqlite.OpenReader(ctx, w.Store.Path)
	if err != nil {
		return nil, w.unreadable(err)
	}
	return reader, nil
}

// unreadable returns the error for a store that can't be read.
func (w *Workspace) unreadable(err error) error {
	if records, reason := w.Store.Waiting(); reason != "" {
		return apiError(http.StatusServiceUnavailable, "the traces can't be read: %v; %d records wait to be stored: %s", err, records, reason)
	}
	return apiError(http.StatusServiceUnavailable, "the traces can't be read: %v", err)
}

func writeText(w http.ResponseWriter, text []byte) error {
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write(text)
	return err
}
