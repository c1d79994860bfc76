package adminapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
)

// traceStory is a trace with its metrics and its definition. Metrics may be the
// first of MetricsTotal reports.
type traceStory struct {
	Trace        *trace.Record   `json:"trace,omitempty"`
	Metrics      []trace.Metrics `json:"metrics"`
	MetricsTotal int64           `json:"metrics_total"`
	Definition   *tracedVersion  `json:"definition,omitempty"`
	// Prompt is the prompt that an endpoint sent.
	Prompt *tracedVersion `json:"prompt,omitempty"`
}

// tracedVersion is the version of the definition that answered.
type tracedVersion struct {
	Version   string          `json:"version"`
	Ordinal   int64           `json:"ordinal"`
	FirstSeen time.Time       `json:"first_seen"`
	Content   json.RawMessage `json:"content"`
}

// serveTrace answers GET /cadenza/traces/ID: the trace, with its content if that
// was recorded, the metrics on it, and the definition that answered. ID may be the
// beginning of an id, if no other begins so.
func serveTrace(w http.ResponseWriter, r *http.Request) error {
	text := strings.TrimPrefix(r.URL.Path, "/cadenza/traces/")
	values := r.URL.Query()
	if err := knownParameters(values, []string{"workspace"}); err != nil {
		return err
	}
	all, err := running()
	if err != nil {
		return err
	}
	id, whole := trace.ParseID(text)
	if !whole {
		if id, err = all.complete(r.Context(), text, values.Get("workspace")); err != nil {
			return err
		}
	}
	story, err := all.story(r.Context(), id, values.Get("workspace"))
	if err != nil {
		return err
	}
	return writeJSON(w, story)
}

// story finds a trace in the named workspace, or in any if the name is empty.
func (all workspaces) story(ctx context.Context, id trace.ID, workspace string) (*traceStory, error) {
	names, err := all.searched(workspace)
	if err != nil {
		return nil, err
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
	return nil, apiError(http.StatusNotFound, "there is no trace %s: it was not recorded, is past the retention, or is another gateway's", id)
}

// searched returns the named workspace, or all if the name is empty.
func (all workspaces) searched(name string) ([]string, error) {
	if name == "" {
		return all.names(), nil
	}
	_, err := all.named(name)
	return []string{name}, err
}

// story returns nil if the store has neither the trace nor metrics on it.
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
		return nil, w.unreadable(err)
	}
	story := &traceStory{Trace: details.Record, Metrics: details.Metrics, MetricsTotal: details.MetricsTotal}
	if story.Metrics == nil {
		story.Metrics = []trace.Metrics{}
	}
	story.Definition, story.Prompt = shownVersion(details.Version), shownVersion(details.Prompt)
	return story, nil
}

// shownVersion returns a version as it is shown, or nil.
func shownVersion(v *sqlite.StoredVersion) *tracedVersion {
	if v == nil {
		return nil
	}
	return &tracedVersion{Version: v.Version.Version, Ordinal: v.Ordinal, FirstSeen: v.Time.UTC(), Content: v.Content}
}
