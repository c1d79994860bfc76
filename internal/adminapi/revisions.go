package adminapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
)

// leastRevision is the least number of characters of a revision's beginning.
const leastRevision = 4

// Revisions is the answer of GET /cadenza/revisions.
type Revisions struct {
	Workspace string           `json:"workspace"`
	Revisions []servedRevision `json:"revisions"`
}

// servedRevision is a revision as GET /cadenza/revisions lists it.
type servedRevision struct {
	Revision  string    `json:"revision"`
	FirstSeen time.Time `json:"first_seen"`
	Served    time.Time `json:"served"`
	Latest    bool      `json:"latest"`
}

// Revision is the answer of GET /cadenza/revisions/REVISION: a revision with its files.
// The files are UTF-8, since the gateway served them.
type Revision struct {
	servedRevision
	Workspace string       `json:"workspace"`
	Files     []trace.File `json:"files"`
}

// serveRevisions answers GET /cadenza/revisions: the sets of definitions that a
// workspace served, the latest first.
func serveRevisions(w http.ResponseWriter, r *http.Request) error {
	workspace, reader, err := revisionReader(r)
	if err != nil {
		return err
	}
	defer reader.Close()
	found, err := reader.Revisions(r.Context(), workspace.Name, "")
	if err != nil {
		return workspace.unreadable(err)
	}
	list := make([]servedRevision, len(found))
	for i, v := range found {
		list[i] = shownRevision(v)
	}
	return writeJSON(w, Revisions{workspace.Name, list})
}

// serveRevision answers GET /cadenza/revisions/REVISION with the files. REVISION may be
// the beginning of a revision if no other revision has this beginning.
func serveRevision(w http.ResponseWriter, r *http.Request) error {
	text := strings.TrimPrefix(r.URL.Path, "/cadenza/revisions/")
	workspace, reader, err := revisionReader(r)
	if err != nil {
		return err
	}
	defer reader.Close()
	stored, err := workspace.revision(r.Context(), reader, text)
	if err != nil {
		return err
	}
	return writeJSON(w, Revision{shownRevision(stored.ServedRevision), workspace.Name, append([]trace.File{}, stored.Files...)})
}

// revisionReader opens the store of the workspace that a request names.
func revisionReader(r *http.Request) (*Workspace, *sqlite.Reader, error) {
	values := r.URL.Query()
	if err := knownParameters(values, []string{"workspace"}); err != nil {
		return nil, nil, err
	}
	workspace, err := workspaceNamed(r.Context(), values.Get("workspace"))
	if err != nil {
		return nil, nil, err
	}
	reader, err := workspace.openTraces(r.Context())
	return workspace, reader, err
}

func shownRevision(v sqlite.ServedRevision) servedRevision {
	return servedRevision{v.Revision, v.FirstSeen.UTC(), v.Served.UTC(), v.Latest}
}

// revision returns the stored revision that begins with a text.
func (w *Workspace) revision(ctx context.Context, reader *sqlite.Reader, text string) (*sqlite.StoredRevision, error) {
	revision, err := w.completeRevision(ctx, reader, text)
	if err != nil {
		return nil, err
	}
	stored, err := reader.Revision(ctx, w.Name, revision)
	if errors.Is(err, sqlite.ErrNotFound) {
		return nil, noRevision(text, nil) // it was deleted in between
	}
	if err != nil {
		return nil, w.unreadable(err)
	}
	return stored, nil
}

// completeRevision finds the revision that begins with a text.
func (w *Workspace) completeRevision(ctx context.Context, reader *sqlite.Reader, text string) (string, error) {
	if len(text) < leastRevision {
		return "", apiError(http.StatusBadRequest, "%q is too little of a revision: give its 12 characters, or the first %d or more", text, leastRevision)
	}
	found, err := reader.Revisions(ctx, w.Name, text)
	switch {
	case err != nil:
		return "", w.unreadable(err)
	case len(found) == 0:
		if found, err = reader.Revisions(ctx, w.Name, ""); err != nil {
			return "", w.unreadable(err)
		}
		return "", noRevision(text, found)
	case len(found) == 1:
		return found[0].Revision, nil
	}
	return "", apiError(http.StatusConflict, "%s begins %d revisions: give more characters%s", text, len(found), candidates(found))
}

// candidates lists revisions in an error, the latest first.
func candidates(found []sqlite.ServedRevision) string {
	var b strings.Builder
	for _, v := range found[:min(len(found), maxCandidates)] {
		fmt.Fprintf(&b, "\n  %s  served %s", v.Revision, v.Served.UTC().Format(time.RFC3339))
	}
	if len(found) > maxCandidates {
		b.WriteString("\n  and others")
	}
	return b.String()
}

// noRevision returns the error for a text that begins no kept revision.
func noRevision(text string, kept []sqlite.ServedRevision) error {
	return apiError(http.StatusNotFound, "the store has no revision %s: it was not served, is past the retention, or newer ones took its place; `caddy cadenza revisions` lists those that are kept%s", text, candidates(kept))
}
