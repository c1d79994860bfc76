package adminapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
)

// traceQuery is a request that chooses traces.
type traceQuery struct {
	values    url.Values
	workspace *Workspace
	filter    trace.Filter
}

// newTraceQuery reads a request, which may have the parameters in known.
func newTraceQuery(r *http.Request, known ...string) (*traceQuery, error) {
	values := r.URL.Query()
	if err := knownParameters(values, known); err != nil {
		return nil, err
	}
	workspace, err := workspaceNamed(r.Context(), values.Get("workspace"))
	if err != nil {
		return nil, err
	}
	filter, err := traceFilter(values, time.Now())
	filter.Workspace = workspace.Name
	if err != nil {
		return nil, apiError(http.StatusBadRequest, "%v", err)
	}
	if text := values.Get("decision"); text != "" {
		if filter.Decision, err = workspace.decision(r.Context(), text); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if field, ok := strings.CutPrefix(name, InputParameter); ok {
			for _, value := range values[name] {
				filter.Inputs = append(filter.Inputs, workspace.inputMatch(field, strings.TrimSpace(value)))
			}
		}
	}
	if err := filter.Validate(); err != nil {
		return nil, apiError(http.StatusBadRequest, "%v", err)
	}
	return &traceQuery{values: values, workspace: workspace, filter: filter}, nil
}

// handler answers a request.
type handler func(http.ResponseWriter, *http.Request) error

// reading returns the handler of a route that reads the store of one workspace, and may
// have the parameters in known.
func reading(serve func(w http.ResponseWriter, r *http.Request, q *traceQuery, reader *sqlite.Reader) error, known ...string) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		q, err := newTraceQuery(r, known...)
		if err != nil {
			return err
		}
		reader, err := q.workspace.openTraces(r.Context())
		if err != nil {
			return err
		}
		defer reader.Close()
		return serve(w, r, q, reader)
	}
}

// flag reads a parameter that is true or false, or left out, which is false.
func (q *traceQuery) flag(name string) (bool, error) {
	switch text := q.values.Get(name); text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, apiError(http.StatusBadRequest, "%s must be true or false, this is %q", name, text)
	}
}

// limit reads the parameter for how many rows a page has.
func (q *traceQuery) limit(most int) (int, error) {
	text := q.values.Get("limit")
	if text == "" {
		return DefaultTraces, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > most {
		return 0, apiError(http.StatusBadRequest, "limit must be a number from 1 to %d, this is %q", most, text)
	}
	return limit, nil
}

// filterParameters are the parameters that choose traces, except metadata.NAME.
var filterParameters = func() []string {
	names := []string{"since", "until"}
	for i := range sqlite.FilterFields {
		names = append(names, sqlite.FilterFields[i].Name)
	}
	return names
}()

// MetadataParameter is the prefix of parameters that compare a member of the
// metadata: metadata.user=u-1.
const MetadataParameter = "metadata."

// InputParameter is the prefix of parameters that compare a field of the data model:
// field.customer=c-17.
const InputParameter = "field."

// UnitParameter is the prefix of the parameter that erases by a unit, a value of a field:
// unit.customer=c-17.
const UnitParameter = "unit."

// inputMatch returns the condition for a field: a value as metadataMatch reads it, or the
// hash of the text.
func (w *Workspace) inputMatch(field, value string) trace.InputMatch {
	m := trace.InputMatch{MetadataMatch: metadataMatch(field, value)}
	text := value
	_ = json.Unmarshal([]byte(m.Value), &text) // a text in quotes; any other value stays as it is
	m.Hashes = []string{w.HashInput(field, text)}
	if folded := strings.ToLower(text); folded != text {
		m.Hashes = append(m.Hashes, w.HashInput(field, folded)) // of a field with ignore_case
	}
	return m
}

// knownParameters refuses a parameter that is not in known, or that a request has
// twice. If known has conversation_id or MetadataParameter, the request may also have
// metadata.NAME, any number of times.
func knownParameters(values url.Values, known []string) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch {
		case strings.HasPrefix(name, InputParameter) && slices.Contains(known, "score"): // of lists, not of an erasure
		case strings.HasPrefix(name, UnitParameter) && slices.Contains(known, "dry_run"): // of an erasure
		case strings.HasPrefix(name, MetadataParameter) && (slices.Contains(known, "conversation_id") || slices.Contains(known, MetadataParameter)):
		case !slices.Contains(known, name):
			return apiError(http.StatusBadRequest, "there is no parameter %q%s", name, document.DidYouMean(name, known))
		case len(values[name]) > 1:
			return apiError(http.StatusBadRequest, "the parameter %s is given %d times", name, len(values[name]))
		}
	}
	return nil
}

// traceFilter reads the parameters that choose traces, except decision.
func traceFilter(values url.Values, now time.Time) (f trace.Filter, err error) {
	if f.Since, err = ParsePast("since", values.Get("since"), now); err != nil {
		return f, err
	}
	if f.Until, err = ParsePast("until", values.Get("until"), now); err != nil {
		return f, err
	}
	for i := range sqlite.FilterFields {
		field := &sqlite.FilterFields[i]
		if text := values.Get(field.Name); text != "" && field.Parse != nil {
			if err := field.Parse(&f, text); err != nil {
				return f, err
			}
		}
	}
	if text := values.Get("slower"); text != "" {
		if f.Slower, err = caddy.ParseDuration(text); err != nil || f.Slower <= 0 {
			return f, fmt.Errorf("slower must be a duration such as 800ms or 2s, this is %q", text)
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

// metadataMatch returns the condition for a member of the metadata. A value that
// reads as a number, true, false or null also matches the same text, because callers
// send ids in both forms. A value in quotes matches only the text:
//
//	user=ada    the text "ada"
//	user=7      the number 7 or the text "7"
//	user="7"    the text "7"
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

// ParsePast reads a time: RFC 3339, a date, or how long before now, such as 90m
// or 7d. The empty text is the zero time. The error message has the name.
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
