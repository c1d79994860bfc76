package adminapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/trace"
)

// The most bytes of a label, and of the note beside it.
const (
	maxLabel = 100
	maxNote  = 4000
)

// label is what a visitor thinks of a trace: the body of POST /cadenza/traces/ID/label.
type label struct {
	Label string   `json:"label,omitempty"`
	Note  string   `json:"note,omitempty"`
	Score *float64 `json:"score,omitempty"`
}

// serveLabel answers POST /cadenza/traces/ID/label: it reports a label, a score and a note
// on a trace, as an app would. So statistics, sinks and exports have them.
func serveLabel(w http.ResponseWriter, r *http.Request) error {
	text, ok := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/cadenza/traces/"), "/label")
	id, whole := trace.ParseID(text)
	if !ok || !whole {
		return apiError(http.StatusNotFound, "a label is sent to traces/ID/label, with the whole id of a trace")
	}
	q, err := newTraceQuery(r, "workspace")
	if err != nil {
		return err
	}
	var l label
	if err := readBody(w, r, maxBody, &l, "a JSON object with label, score and note, each as wanted"); err != nil {
		return err
	}
	l.Label, l.Note = strings.TrimSpace(l.Label), strings.TrimSpace(l.Note)
	switch {
	case l.Label == "" && l.Score == nil:
		return apiError(http.StatusBadRequest, "a label or a score is missing")
	case len(l.Label) > maxLabel || len(l.Note) > maxNote:
		return apiError(http.StatusBadRequest, "a label may have %d bytes and a note %d: they have %d and %d", maxLabel, maxNote, len(l.Label), len(l.Note))
	case l.Score != nil && (*l.Score < trace.AllScores.Least || *l.Score > trace.AllScores.Most):
		return apiError(http.StatusBadRequest, "score must be a number from 0 to 100, this is %v", *l.Score)
	}
	score := l.Score
	l.Score = nil
	metadata, err := json.Marshal(l)
	if err != nil {
		return err
	}
	by := callerName(r.Context(), "local")
	ignored, err := q.workspace.Report(r.Context(), trace.ConsoleKey+by, &trace.Metrics{TraceID: id, Score: score, Metadata: metadata})
	if refused, ok := errors.AsType[*wire.Error](err); ok {
		return apiError(http.StatusNotFound, "%s", refused.Message)
	}
	if err != nil {
		return q.workspace.unreadable(err)
	}
	q.workspace.audited(r.Context(), AuditLabel, id.String(), "", cmp.Or(l.Label, "a score"))
	return writeJSON(w, map[string]any{"trace_id": id, "ignored": append([]string{}, ignored...)})
}
