package adminapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/edit"
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
	// EditedBy is the visitor whose edit through the console made it, the last if several did.
	EditedBy string `json:"edited_by,omitempty"`
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
func serveRevisions(w http.ResponseWriter, r *http.Request, q *traceQuery, reader *sqlite.Reader) error {
	workspace := q.workspace
	found, err := reader.Revisions(r.Context(), workspace.Name, "")
	if err != nil {
		return workspace.unreadable(err)
	}
	edits, err := reader.Audit(r.Context(), &sqlite.AuditFilter{Workspace: workspace.Name, Action: AuditEdit}, sqlite.MaxAudit)
	if err != nil {
		return workspace.unreadable(err)
	}
	list := make([]servedRevision, len(found))
	for i, v := range found {
		list[i] = shownRevision(v)
		if at := slices.IndexFunc(edits, func(e sqlite.AuditEntry) bool { return strings.HasSuffix(e.After, editedTo+v.Revision) }); at >= 0 {
			list[i].EditedBy = edits[at].By
		}
	}
	return writeJSON(w, Revisions{workspace.Name, list})
}

// serveRevision answers GET /cadenza/revisions/REVISION with the files. REVISION may be
// the beginning of a revision if no other revision has this beginning.
func serveRevision(w http.ResponseWriter, r *http.Request, q *traceQuery, reader *sqlite.Reader) error {
	stored, err := q.workspace.revision(r.Context(), reader, strings.TrimPrefix(r.URL.Path, "/cadenza/revisions/"))
	if err != nil {
		return err
	}
	return writeJSON(w, Revision{shownRevision(stored.ServedRevision), q.workspace.Name, append([]trace.File{}, stored.Files...)})
}

// serveAgain answers POST /cadenza/revisions/REVISION: an edit that gives the workspace the
// files of the revision. With dry_run it answers as serveReview does.
func serveAgain(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	if err := knownParameters(values, []string{"dry_run"}); err != nil {
		return err
	}
	dry, err := (&traceQuery{values: values}).flag("dry_run")
	if err != nil {
		return err
	}
	read := func(w http.ResponseWriter, r *http.Request) (*proposal, error) { return againOf(w, r, dry) }
	if dry {
		return review(w, r, read)
	}
	return save(w, r, read)
}

// againOf reads which revision is to be served again, as editOf reads an edit. What it takes
// is based on the hash of its patch, which is another if any of the files changes.
func againOf(w http.ResponseWriter, r *http.Request, dry bool) (*proposal, error) {
	var body struct {
		Workspace string `json:"workspace"`
		Base      string `json:"base"`
	}
	if !dry || r.ContentLength != 0 {
		if err := readBody(w, r, maxBody, &body, "a JSON object with base, that of the answer with dry_run"); err != nil {
			return nil, err
		}
	}
	workspace, err := editable(r.Context(), body.Workspace)
	if err != nil {
		return nil, err
	}
	reader, err := workspace.openTraces(r.Context())
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	stored, err := workspace.revision(r.Context(), reader, strings.TrimPrefix(r.URL.Path, "/cadenza/revisions/"))
	if err != nil {
		return nil, err
	}
	served := workspace.Definitions.Snapshot()
	p := &proposal{Workspace: workspace, name: stored.Revision, before: "revision " + served.Revision, did: "served again", message: "Serve revision " + stored.Revision + " again"}
	contents := make(map[string]*trace.File) // nil: the revision has no such file
	for _, f := range served.Files {
		contents[f.Path] = nil
	}
	for i := range stored.Files {
		contents[stored.Files[i].Path] = &stored.Files[i]
	}
	for _, path := range slices.Sorted(maps.Keys(contents)) {
		var after []byte
		if f := contents[path]; f != nil {
			after = append([]byte{}, f.Content...)
		}
		c, err := edit.To(workspace.Definitions.Dir(), path, after)
		if err != nil {
			return nil, editError(err)
		}
		if c != nil {
			p.changes = append(p.changes, c)
		}
	}
	if len(p.changes) == 0 {
		return nil, apiError(http.StatusBadRequest, "the folder has the files of revision %s already", p.name)
	}
	patch := p.changes.Patch("")
	if p.base = edit.Hash([]byte(patch)); !dry && body.Base != p.base {
		return nil, writeStatus(w, http.StatusConflict, Conflict{Error: "the files were changed meanwhile: look again at what serving revision " + p.name + " changes", ConflictError: edit.ConflictError{File: p.name, Base: p.base, Now: patch}})
	}
	return p, nil
}

func shownRevision(v sqlite.ServedRevision) servedRevision {
	return servedRevision{Revision: v.Revision, FirstSeen: v.FirstSeen.UTC(), Served: v.Served.UTC(), Latest: v.Latest}
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
