package adminapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
)

// Definition is the answer of GET /cadenza/definitions/KIND/KEY.
type Definition struct {
	Workspace string    `json:"workspace"`
	Directory string    `json:"directory"`
	Revision  string    `json:"revision"`
	Loaded    time.Time `json:"loaded"`
	// Restored is when the served set was served first, if it is not that of the directory.
	Restored time.Time `json:"restored,omitzero"`
	inspect.Description
	// Fields are the fields of the data model, in the order of its file.
	Fields []DataField `json:"fields"`
	// Versions are those that the store has, the newest first. The one that is served comes
	// first without an ordinal, if the store does not have it.
	Versions []ListedVersion `json:"versions"`
}

// ListedVersion is a version of a definition. Changed are the paths of the members in which
// it differs from the version before. Content is there if it was asked for.
type ListedVersion struct {
	Version   string          `json:"version"`
	Ordinal   int64           `json:"ordinal,omitempty"`
	FirstSeen time.Time       `json:"first_seen,omitzero"`
	Served    bool            `json:"served,omitempty"`
	Changed   []string        `json:"changed,omitempty"`
	Content   json.RawMessage `json:"content,omitempty"`
}

// serveDefinition answers GET /cadenza/definitions/KIND/KEY: a definition that is served, by
// its key or an alias, with its table from the row ?row= on, and with the contents of the
// versions ?versions=.
func serveDefinition(w http.ResponseWriter, r *http.Request, q *traceQuery, reader *sqlite.Reader) error {
	workspace := q.workspace
	word, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/cadenza/definitions/"), "/")
	k := kind.Named(word)
	if k == nil {
		return apiError(http.StatusNotFound, "there is no kind %q%s", word, document.DidYouMean(word, kind.Names()))
	}
	s := workspace.Definitions.Snapshot()
	d := s.Named(k, key)
	if d == nil {
		var known []string
		for _, other := range s.Definitions {
			if other.Kind == k {
				known = append(known, other.Key)
			}
		}
		return apiError(http.StatusNotFound, "there is no %s %q%s", k.Noun, key, document.DidYouMean(key, known))
	}
	row := 0
	if text := q.values.Get("row"); text != "" {
		var err error
		if row, err = strconv.Atoi(text); err != nil || row < 0 {
			return apiError(http.StatusBadRequest, "row must be the index of the first row to show, this is %q", text)
		}
	}
	answer := Definition{
		Workspace: workspace.Name, Directory: workspace.Definitions.Dir(), Revision: s.Revision, Loaded: s.Loaded.UTC(),
		Restored:    workspace.Definitions.State().Restored.UTC(),
		Description: *inspect.Describe(s, d, row, time.Now()), Fields: dataFields(s.DataModel),
	}
	answer.AddMistakes(workspace.mistakes())
	var err error
	if answer.Versions, err = workspace.versions(r.Context(), reader, d, strings.Split(q.values.Get("versions"), ",")); err != nil {
		return err
	}
	return writeJSON(w, answer)
}

// versions lists the versions of a definition, some of them with their content.
func (w *Workspace) versions(ctx context.Context, reader *sqlite.Reader, d *definition.Definition, full []string) ([]ListedVersion, error) {
	stored, err := reader.Versions(ctx, w.Name, d.Kind.Trace, d.Key)
	if err != nil {
		return nil, w.unreadable(err)
	}
	served := func(v sqlite.StoredVersion) bool { return v.Version.Version == d.Version }
	if !slices.ContainsFunc(stored, served) {
		stored = slices.Insert(stored, 0, sqlite.StoredVersion{Version: trace.Version{Version: d.Version, Content: d.Content()}})
	}
	list := make([]ListedVersion, len(stored))
	for i, v := range stored {
		list[i] = ListedVersion{Version: v.Version.Version, Ordinal: v.Ordinal, Served: served(v)}
		if v.Ordinal > 0 {
			list[i].FirstSeen = v.Time.UTC()
		}
		if i+1 < len(stored) && v.Content != nil && stored[i+1].Content != nil {
			list[i].Changed = inspect.ChangedMembers(stored[i+1].Content, v.Content)
		}
		if !slices.Contains(full, v.Version.Version) {
			continue
		}
		if list[i].Content = v.Content; v.Content == nil {
			whole, err := reader.Version(ctx, w.Name, d.Kind.Trace, d.Key, v.Version.Version)
			if err != nil && !errors.Is(err, sqlite.ErrNotFound) {
				return nil, w.unreadable(err)
			}
			if whole != nil {
				list[i].Content = whole.Content
			}
		}
	}
	return list, nil
}

// serveCompare answers GET /cadenza/compare?from=OLD&to=NEW: how two revisions that are
// stored differ, as `caddy cadenza diff --json` says it.
func serveCompare(w http.ResponseWriter, r *http.Request, q *traceQuery, reader *sqlite.Reader) error {
	var places [2]definition.Place
	for i, name := range []string{"from", "to"} {
		stored, err := q.workspace.revision(r.Context(), reader, q.values.Get(name))
		if err != nil {
			return err
		}
		places[i] = definition.Place{Dir: q.workspace.Definitions.Dir(), Past: &definition.Past{Revision: stored.Revision, Since: stored.Served, Files: stored.Files}}
	}
	comparison, err := inspect.Compare(places[0], places[1], time.Now())
	if err != nil {
		return apiError(http.StatusUnprocessableEntity, "the revisions can't be compared: %v", err)
	}
	return writeJSON(w, comparison)
}
