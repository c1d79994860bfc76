package adminapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TraceStory is a trace with its metrics and its definition. That of a decision has all its
// traces, without their content, and the metrics on the decision itself. Metrics may be the
// first of MetricsTotal reports.
type TraceStory struct {
	Decision     trace.ID            `json:"decision_id,omitzero"`
	Traces       []*trace.Record     `json:"traces,omitzero"`
	Trace        *trace.Record       `json:"trace,omitempty"`
	Verification *trace.Verification `json:"verification,omitempty"`
	Proof        *inspect.Proof      `json:"proof,omitempty"` // if it was asked for
	Metrics      []trace.Metrics     `json:"metrics"`
	MetricsTotal int64               `json:"metrics_total"`
	Definition   *TracedVersion      `json:"definition,omitempty"`
	// Prompt is the prompt that an endpoint sent.
	Prompt *TracedVersion `json:"prompt,omitempty"`
	// Others are the other traces of the decision, without their content.
	Others []*trace.Record `json:"others,omitempty"`
}

// TracedVersion is the version of the definition that answered.
type TracedVersion struct {
	Version   string          `json:"version"`
	Ordinal   int64           `json:"ordinal"`
	FirstSeen time.Time       `json:"first_seen"`
	Content   json.RawMessage `json:"content"`
}

// TracedTable is the table of a version's content, as it was written.
type TracedTable struct {
	Columns []string // of a matrix
	Rows    []TracedRow
}

// TracedRow is a row of a table: the cells of a matrix, or the whole of a rule. A row without
// an id has a name such as "row 2". The last is the default, which has no cells.
type TracedRow struct {
	Name  string
	Cells []string
	Chose bool // it decided
}

// Table returns the table of the version, in which the row of a name decided, or without a
// name the default. It is nil if the version has none.
func (v *TracedVersion) Table(chosen string) *TracedTable {
	var content struct {
		Columns []string            `json:"columns"`
		Matrix  [][]json.RawMessage `json:"matrix"`
		Rules   []json.RawMessage   `json:"rules"`
	}
	if json.Unmarshal(v.Content, &content) != nil || len(content.Matrix)+len(content.Rules) == 0 {
		return nil
	}
	t := &TracedTable{Columns: content.Columns}
	add := func(id string, cells ...string) {
		name := cmp.Or(id, fmt.Sprintf("row %d", len(t.Rows)+1))
		t.Rows = append(t.Rows, TracedRow{name, cells, name == cmp.Or(chosen, "default")})
	}
	for _, cells := range content.Matrix {
		id, texts := "", make([]string, len(cells))
		for i, cell := range cells {
			texts[i] = PlainText(cell)
			if i < len(t.Columns) && t.Columns[i] == "id" {
				id = texts[i]
			}
		}
		add(id, texts...)
	}
	for _, rule := range content.Rules {
		var named struct {
			ID string `json:"id"`
		}
		_ = json.Unmarshal(rule, &named) // the definition was served: it can be read
		add(named.ID, string(rule))
	}
	add("default")
	return t
}

// serveTrace answers GET /cadenza/traces/ID: the trace, with its content if that
// was recorded, the metrics on it, the definition that answered, and the other
// traces of its decision. For the id of a decision it answers with all traces of the
// decision. ID may be the beginning of an id if no other id has this beginning.
func serveTrace(w http.ResponseWriter, r *http.Request) error {
	text := strings.TrimPrefix(r.URL.Path, "/cadenza/traces/")
	values := r.URL.Query()
	if err := knownParameters(values, []string{"workspace", "prove"}); err != nil {
		return err
	}
	prove := values.Get("prove") == "true"
	switch {
	case values.Has("prove") && !prove:
		return apiError(http.StatusBadRequest, "prove must be true or left out, this is %q", values.Get("prove"))
	case prove && !seesContent(r.Context()):
		return apiError(http.StatusForbidden, "a proof shows the context: this needs the role %s", gateway.RoleEditor)
	}
	all, err := running(r.Context())
	if err != nil {
		return err
	}
	id, whole := trace.ParseID(text)
	if !whole {
		if id, err = all.complete(r.Context(), text, values.Get("workspace")); err != nil {
			return err
		}
	}
	names, err := all.searched(values.Get("workspace"))
	if err != nil {
		return err
	}
	var failure error
	for _, name := range names {
		story, err := all[name].story(r.Context(), id, prove)
		if story != nil {
			return writeJSON(w, story)
		}
		failure = cmp.Or(failure, err)
	}
	if failure != nil {
		return failure
	}
	what := "trace"
	if id.Kind() == trace.KindDecision {
		what = "decision"
	}
	return apiError(http.StatusNotFound, "there is no %s %s: it was not recorded, is past the retention, or is another gateway's", what, id)
}

// searched returns the named workspace, or all if the name is empty.
func (all workspaces) searched(name string) ([]string, error) {
	if name == "" {
		return all.names(), nil
	}
	_, err := all.named(name)
	return []string{name}, err
}

// story returns nil if the store has neither the trace or decision nor metrics on
// it.
func (w *Workspace) story(ctx context.Context, id trace.ID, prove bool) (*TraceStory, error) {
	reader, err := w.openTraces(ctx)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	call := w.Call(id)
	running := w.running(0, w.Mark())
	details, err := reader.Get(ctx, w.Name, id)
	if call != nil && call.Workspace == w.Name && (errors.Is(err, sqlite.ErrNotFound) || err == nil && details.Record == nil) {
		details, err = reader.Around(ctx, call)
	}
	switch {
	case errors.Is(err, sqlite.ErrNotFound) && id.Kind() == trace.KindDecision:
		details = new(sqlite.Details)
	case errors.Is(err, sqlite.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, w.unreadable(err)
	}
	if details.Metrics == nil {
		details.Metrics = []trace.Metrics{}
	}
	verification := w.verify(details.Record) // of the whole record
	var proof *inspect.Proof
	if prove && verification != nil {
		if proof, err = w.prove(ctx, reader, details.Record, verification); err != nil {
			return nil, err
		}
	}
	if withoutContent(ctx, details.Record, details.Metrics) {
		w.audited(ctx, AuditLook, id.String(), "", "")
	}
	decision := id
	if record := details.Record; record != nil {
		decision = record.Decision
	}
	traces := []*trace.Record{}
	if decision.Kind() == trace.KindDecision {
		page, err := reader.Traces(ctx, trace.Filter{Workspace: w.Name, Decision: decision}, trace.ID{}, MaxTraces, listBudget)
		if err != nil {
			return nil, w.unreadable(err)
		}
		addRunning(&page, slices.DeleteFunc(running, func(c runningCall) bool { return c.Decision != decision }), trace.ID{}, MaxTraces)
		traces = append(traces, page.Records...)
		slices.Reverse(traces)
	}
	if id.Kind() == trace.KindDecision {
		if len(traces) == 0 && len(details.Metrics) == 0 {
			return nil, nil
		}
		return &TraceStory{Decision: decision, Traces: traces, Metrics: details.Metrics, MetricsTotal: details.MetricsTotal}, nil
	}
	return &TraceStory{
		Trace: details.Record, Verification: verification, Metrics: details.Metrics, MetricsTotal: details.MetricsTotal,
		Proof: proof, Definition: shownVersion(details.Version), Prompt: shownVersion(details.Prompt),
		Others: slices.DeleteFunc(traces, func(r *trace.Record) bool { return r.ID == id }),
	}, nil
}

// verify verifies the seal of a record. It returns nil for a call that is under way, of
// which the store has no record.
func (w *Workspace) verify(record *trace.Record) *trace.Verification {
	if record == nil || record.State == trace.StateStarted && w.Call(record.ID) != nil {
		return nil
	}
	return new(w.VerifySeal(record))
}

// prove decides again what a trace recorded, by the definitions of its revision.
func (w *Workspace) prove(ctx context.Context, reader *sqlite.Reader, record *trace.Record, verification *trace.Verification) (*inspect.Proof, error) {
	traced, err := inspect.ReadTraced(record.AppendJSON(nil))
	if err != nil {
		return nil, err
	}
	traced.Verification = *verification
	stored, err := reader.Revision(ctx, w.Name, record.Revision)
	if errors.Is(err, sqlite.ErrNotFound) {
		return inspect.Unproved(traced, inspect.NoRevision(record.Revision)), nil
	}
	if err != nil {
		return nil, w.unreadable(err)
	}
	past := definition.Past{Revision: stored.Revision, Files: stored.Files}
	snapshot, err := past.Load()
	if err != nil {
		return inspect.Unproved(traced, err.Error()), nil
	}
	return inspect.Prove(snapshot, traced), nil
}

// shownVersion returns a version for an answer, nil for nil.
func shownVersion(v *sqlite.StoredVersion) *TracedVersion {
	if v == nil {
		return nil
	}
	return &TracedVersion{Version: v.Version.Version, Ordinal: v.Ordinal, FirstSeen: v.Time.UTC(), Content: v.Content}
}
