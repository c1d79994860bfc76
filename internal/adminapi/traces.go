package adminapi

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
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

	// flushTimeout bounds how long an erasure waits for what is to be stored.
	flushTimeout = 2 * time.Second

	// maxFollowed bounds how many written rows one step of following looks at.
	maxFollowed = 1000
)

// serveTraces answers GET /cadenza/traces, the newest traces that pass a filter
// or, with ?follow, what was written since; and DELETE /cadenza/traces, which
// erases what belongs to a conversation or bears a metadata value.
func serveTraces(w http.ResponseWriter, r *http.Request) error {
	if err := requireMethod(w, r, http.MethodGet, http.MethodHead, http.MethodDelete); err != nil {
		return err
	}
	if r.Method == http.MethodDelete {
		return serveErase(w, r)
	}
	q, err := newTraceQuery(r, "limit", "before", "follow")
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
			return adminError(http.StatusBadRequest, "limit and before are of a list: follow takes neither")
		}
		return q.follow(w, r, reader)
	}
	limit := DefaultTraces
	if text := q.values.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > MaxTraces {
			return adminError(http.StatusBadRequest, "limit must be a number from 1 to %d, this is %q", MaxTraces, text)
		}
	}
	var before trace.ID
	if text := q.values.Get("before"); text != "" {
		var ok bool
		if before, ok = trace.ParseID(text); !ok {
			return adminError(http.StatusBadRequest, "before must be the trace id that stood in next, this is %q", text)
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
	return writeAdminText(w, append(out, "}\n"...))
}

// follow answers with what was written after a point.
func (q *traceQuery) follow(w http.ResponseWriter, r *http.Request, reader *sqlite.Reader) error {
	after, err := strconv.ParseInt(q.values.Get("follow"), 10, 64)
	if err != nil || after < 0 {
		return adminError(http.StatusBadRequest, "follow must be the number that stood in follow, this is %q", q.values.Get("follow"))
	}
	records, last, err := reader.Follow(r.Context(), q.filter, after, maxFollowed)
	if err != nil {
		return unreadable(err)
	}
	out := appendTraces([]byte(`{"traces":`), records)
	out = strconv.AppendInt(append(out, `,"follow":`...), last, 10)
	return writeAdminText(w, append(out, "}\n"...))
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

// traceStory is a trace with what is known of it. Where there are very many
// reports, Metrics are the first of them.
type traceStory struct {
	Trace        *trace.Record   `json:"trace,omitempty"`
	Metrics      []trace.Metrics `json:"metrics"`
	MetricsTotal int64           `json:"metrics_total"`
	Definition   *tracedVersion  `json:"definition,omitempty"`
}

// tracedVersion is the definition that answered.
type tracedVersion struct {
	Version   string          `json:"version"`
	Ordinal   int64           `json:"ordinal"`
	FirstSeen time.Time       `json:"first_seen"`
	Content   json.RawMessage `json:"content"`
}

// serveTrace answers GET /cadenza/traces/ID: the decision, the attempts, the
// content where it was recorded, what was reported, and the definition.
func serveTrace(w http.ResponseWriter, r *http.Request) error {
	if err := requireMethod(w, r, http.MethodGet, http.MethodHead); err != nil {
		return err
	}
	text := strings.TrimPrefix(r.URL.Path, "/cadenza/traces/")
	id, ok := trace.ParseID(text)
	if !ok {
		return adminError(http.StatusBadRequest, "%q is no trace id", text)
	}
	values := r.URL.Query()
	if err := knownParameters(values, []string{"workspace"}); err != nil {
		return err
	}
	all, err := running()
	if err != nil {
		return err
	}
	story, err := all.story(r.Context(), id, values.Get("workspace"))
	if err != nil {
		return err
	}
	return writeAdminJSON(w, story)
}

// story finds a trace in the store of its workspace, which need not be named.
func (all workspaces) story(ctx context.Context, id trace.ID, workspace string) (*traceStory, error) {
	names := all.names()
	if workspace != "" {
		if _, err := all.named(workspace); err != nil {
			return nil, err
		}
		names = []string{workspace}
	}
	var failure error
	for _, name := range names {
		story, err := all[name].story(ctx, id)
		if story != nil {
			return story, nil
		}
		failure = cmp.Or(failure, err)
	}
	if failure != nil {
		return nil, failure
	}
	return nil, adminError(http.StatusNotFound, "there is no trace %s: it was not recorded, is past the retention, or is another gateway's", id)
}

// story is nil where the store holds nothing of the trace.
func (w *Workspace) story(ctx context.Context, id trace.ID) (*traceStory, error) {
	reader, err := w.openTraces(ctx)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	details, err := reader.Get(ctx, w.Name, id)
	if errors.Is(err, sqlite.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, unreadable(err)
	}
	story := &traceStory{Trace: details.Record, Metrics: details.Metrics, MetricsTotal: details.MetricsTotal}
	if story.Metrics == nil {
		story.Metrics = []trace.Metrics{}
	}
	if v := details.Version; v != nil {
		story.Definition = &tracedVersion{
			Version: v.Version.Version, Ordinal: v.Ordinal, FirstSeen: v.Time.UTC(), Content: v.Content,
		}
	}
	return story, nil
}

// serveStats answers GET /cadenza/stats: counts, errors, times, tokens, costs
// and scores per key and variant over time.
func serveStats(w http.ResponseWriter, r *http.Request) error {
	if err := requireMethod(w, r, http.MethodGet, http.MethodHead); err != nil {
		return err
	}
	values := r.URL.Query()
	if err := knownParameters(values, []string{"workspace", "since", "until", "kind", "key", "interval"}); err != nil {
		return err
	}
	workspace, filter, err := parseTraceFilter(values)
	if err != nil {
		return err
	}
	q := sqlite.StatsQuery{
		Workspace: workspace.Name, Since: filter.Since, Until: filter.Until, Kind: filter.Kind, Key: filter.Key,
	}
	interval := values.Get("interval")
	if interval == "" {
		interval = "all"
	}
	var known bool
	if q.Interval, known = sqlite.ParseInterval(interval); !known {
		return adminError(http.StatusBadRequest, "interval must be hour, day or all, this is %q", interval)
	}
	reader, err := workspace.openTraces(r.Context())
	if err != nil {
		return err
	}
	defer reader.Close()
	stats, err := reader.Stats(r.Context(), q)
	switch {
	case errors.Is(err, sqlite.ErrTooMany):
		return adminError(http.StatusBadRequest, "%v", err)
	case err != nil:
		return unreadable(err)
	}
	return writeAdminJSON(w, Stats{
		Since: q.Since.UTC(), Until: q.Until.UTC(), Interval: interval, Pending: stats.Pending, Rows: stats.Rows,
	})
}

// Stats is the answer to a request for statistics. Since and until are
// as asked; the statistics are of the whole hours that they fall into.
type Stats struct {
	Since    time.Time         `json:"since,omitzero"`
	Until    time.Time         `json:"until,omitzero"`
	Interval string            `json:"interval"`
	Pending  int64             `json:"pending"`
	Rows     []sqlite.StatsRow `json:"rows"`
}

// serveExport answers GET /cadenza/export: all that is recorded of a time
// range, oldest first, as JSON lines.
func serveExport(w http.ResponseWriter, r *http.Request) error {
	if err := requireMethod(w, r, http.MethodGet); err != nil {
		return err
	}
	q, err := newTraceQuery(r)
	if err != nil {
		return err
	}
	reader, err := q.workspace.openTraces(r.Context())
	if err != nil {
		return err
	}
	defer reader.Close()
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := bufio.NewWriterSize(w, 64<<10)
	var line []byte
	err = reader.Export(r.Context(), q.filter, func(record *trace.Record, metrics []trace.Metrics) error {
		line = appendExported(line[:0], record, metrics)
		_, err := out.Write(line)
		return err
	})
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		q.workspace.Logger.Error("an export broke off", zap.Error(err))
		// Lines may be out already: only a cut tells that they are not all.
		panic(http.ErrAbortHandler)
	}
	return nil
}

// appendExported appends a trace, with its metrics in a member of that name,
// as one line; metrics without a trace stand alone in such a line.
func appendExported(line []byte, record *trace.Record, metrics []trace.Metrics) []byte {
	line = append(line, '{')
	if record != nil {
		line = record.AppendJSON(append(line, `"trace":`...))
	}
	for i := range metrics {
		switch {
		case i > 0:
			line = append(line, ',')
		case record != nil:
			line = append(line, `,"metrics":[`...)
		default:
			line = append(line, `"metrics":[`...)
		}
		line = metrics[i].AppendJSON(line)
	}
	if len(metrics) > 0 {
		line = append(line, ']')
	}
	return append(line, "}\n"...)
}

// serveErase erases what belongs to a conversation, or bears a value in its
// metadata, from the store, and tells the sinks to.
func serveErase(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	if err := knownParameters(values, []string{"workspace", "conversation_id"}); err != nil {
		return err
	}
	workspace, filter, err := parseTraceFilter(values)
	if err != nil {
		return err
	}
	if (filter.ConversationID == "") == (len(filter.Metadata) == 0) || len(filter.Metadata) > 1 {
		return adminError(http.StatusBadRequest, "what is to be erased? Give either conversation_id=ID or one metadata.NAME=VALUE")
	}
	selectors := []trace.Selector{{Workspace: workspace.Name, ConversationID: filter.ConversationID}}
	if len(filter.Metadata) > 0 {
		match := filter.Metadata[0]
		selectors[0].MetadataName, selectors[0].MetadataValue = match.Name, match.Value
		if match.OrText {
			asText := selectors[0]
			asText.MetadataValue = quoted(match.Value)
			selectors = append(selectors, asText)
		}
	}
	// What was answered just now may still wait to be stored. A store that does
	// not take it is found out below.
	flushing, cancel := context.WithTimeout(r.Context(), flushTimeout)
	defer cancel()
	_ = workspace.Flush(flushing)
	var erased trace.Erased
	for _, selector := range selectors {
		more, err := sqlite.Erase(r.Context(), workspace.Store, selector)
		erased.Traces += more.Traces
		erased.Metrics += more.Metrics
		erased.Replies += more.Replies
		if err != nil {
			return adminError(http.StatusServiceUnavailable, "not all could be erased, try again: %v", err)
		}
	}
	workspace.Logger.Info("traces were erased",
		zap.Int64("traces", erased.Traces), zap.Int64("metrics", erased.Metrics), zap.Int64("replies", erased.Replies))
	return writeAdminJSON(w, map[string]any{"erased": map[string]int64{
		"traces": erased.Traces, "metrics": erased.Metrics, "replies": erased.Replies,
	}})
}

// traceQuery is a request for traces.
type traceQuery struct {
	values    url.Values
	workspace *Workspace
	filter    trace.Filter
}

// newTraceQuery reads a request's filter. Other parameters are named by more.
func newTraceQuery(r *http.Request, more ...string) (*traceQuery, error) {
	values := r.URL.Query()
	if err := knownParameters(values, slices.Concat(filterParameters, more)); err != nil {
		return nil, err
	}
	workspace, filter, err := parseTraceFilter(values)
	if err != nil {
		return nil, err
	}
	return &traceQuery{values: values, workspace: workspace, filter: filter}, nil
}

// filterParameters are the parameters that choose traces, beside metadata.NAME.
var filterParameters = []string{
	"workspace", "since", "until", "kind", "key", "api_key", "status", "provider", "model", "code", "finish_reason", "state",
	"chain_id", "conversation_id",
}

// MetadataParameter begins the parameters that ask for a value of the metadata.
const MetadataParameter = "metadata."

func knownParameters(values url.Values, known []string) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch {
		case strings.HasPrefix(name, MetadataParameter) && slices.Contains(known, "conversation_id"):
		case !slices.Contains(known, name):
			return adminError(http.StatusBadRequest, "there is no parameter %q%s", name, document.DidYouMean(name, known))
		case len(values[name]) > 1:
			return adminError(http.StatusBadRequest, "the parameter %s is given %d times", name, len(values[name]))
		}
	}
	return nil
}

// parseTraceFilter reads the parameters that choose traces.
func parseTraceFilter(values url.Values) (*Workspace, trace.Filter, error) {
	all, err := running()
	if err != nil {
		return nil, trace.Filter{}, err
	}
	workspace, err := all.named(values.Get("workspace"))
	if err != nil {
		return nil, trace.Filter{}, err
	}
	filter, err := traceFilter(values, time.Now())
	if err == nil {
		filter.Workspace = workspace.Name
		err = filter.Validate()
	}
	if err != nil {
		return nil, trace.Filter{}, adminError(http.StatusBadRequest, "%v", err)
	}
	return workspace, filter, nil
}

func traceFilter(values url.Values, now time.Time) (trace.Filter, error) {
	f := trace.Filter{
		Key: values.Get("key"), APIKey: values.Get("api_key"), Provider: values.Get("provider"), Model: values.Get("model"),
		Code: values.Get("code"), FinishReason: values.Get("finish_reason"), ChainID: values.Get("chain_id"), ConversationID: values.Get("conversation_id"),
	}
	var err error
	if f.Since, err = ParsePast("since", values.Get("since"), now); err != nil {
		return f, err
	}
	if f.Until, err = ParsePast("until", values.Get("until"), now); err != nil {
		return f, err
	}
	if name := values.Get("kind"); name != "" {
		var known bool
		if f.Kind, known = trace.ParseKind(name); !known {
			return f, fmt.Errorf("there is no kind %q: prompt, endpoint, remoteconfig or metrics", name)
		}
	}
	if name := values.Get("state"); name != "" {
		state, known := trace.ParseState(name)
		if !known {
			return f, fmt.Errorf("there is no state %q: started, ended or interrupted", name)
		}
		f.State = &state
	}
	if status := values.Get("status"); status != "" {
		var known bool
		if f.Outcome, known = trace.ParseOutcome(status); !known {
			if f.Status, err = strconv.Atoi(status); err != nil || f.Status < 100 || f.Status > 599 {
				return f, fmt.Errorf("status must be ok, error or the number of an HTTP status, this is %q", status)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if member, ok := strings.CutPrefix(name, MetadataParameter); ok {
			for _, value := range values[name] {
				f.Metadata = append(f.Metadata, metadataMatch(member, strings.TrimSpace(value)))
			}
		}
	}
	return f, nil
}

// metadataMatch is a parameter's value as JSON. What could be a number, true,
// false or null may as well be a text that reads the same, as ids often do; in
// quotes it is a text.
func metadataMatch(name, value string) trace.MetadataMatch {
	switch {
	case !json.Valid([]byte(value)) || value[0] == '{' || value[0] == '[':
		return trace.MetadataMatch{Name: name, Value: quoted(value)}
	case value[0] == '"':
		return trace.MetadataMatch{Name: name, Value: value}
	}
	return trace.MetadataMatch{Name: name, Value: value, OrText: true}
}

func quoted(text string) string { return string(jsontext.AppendString(nil, text)) }

// ParsePast reads a time: RFC 3339, a date, or how long ago it was, such as 90m
// or 7d. The empty text is the zero time.
func ParsePast(name, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := caddy.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	at, err := inspect.ParseInstant(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s must be a time such as 2026-01-31T09:00:00Z (RFC 3339), a date such as 2026-01-31, or how long ago, such as 90m or 7d; this is %q", name, text)
	}
	return at, nil
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
	return adminError(http.StatusServiceUnavailable, "the traces can't be read: %v", err)
}

func writeAdminText(w http.ResponseWriter, text []byte) error {
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write(text)
	return err
}
