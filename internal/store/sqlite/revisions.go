package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
)

// maxRevisions is how many revisions of a workspace are kept, those that were
// served last.
const maxRevisions = 100

const (
	revisionSQL = `
INSERT OR REPLACE INTO revisions (workspace, directory, revision, first_seen_ms, served_ms, versions, context, archive)
VALUES (?1, ?2, ?3, coalesce((
	SELECT first_seen_ms FROM revisions WHERE workspace = ?1 AND directory = ?2 AND revision = ?3
), ?4), ?4, ?5, ?6, ?7)`

	forgetArchivesSQL = `
UPDATE revisions SET archive = NULL
WHERE workspace = ?1 AND directory = ?2 AND revision <> ?3 AND archive IS NOT NULL`

	forgetRevisionsSQL = `
DELETE FROM revisions WHERE workspace = ?1 AND seq <= (
	SELECT seq FROM revisions WHERE workspace = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2
)`

	// The newest of a workspace is served, whatever its age.
	deleteRevisionsSQL = `
DELETE FROM revisions WHERE served_ms < ? AND seq NOT IN (SELECT max(seq) FROM revisions GROUP BY workspace)`
)

// keepRevision stores the set that is served now, and lets go of the files of the
// one before. A revision is rare, so no statement of it is prepared.
func keepRevision(on *native, r *recorder.Revision) error {
	versions := make([][3]string, len(r.Versions))
	for i, v := range r.Versions {
		versions[i] = [3]string{v.Kind.String(), v.Key, v.Version}
	}
	list, err := json.Marshal(versions)
	if err != nil {
		return err
	}
	archive := value{}
	if r.Archive != nil {
		archive = blobValue(r.Archive)
	}
	workspace, directory, revision := textValue(r.Workspace), textValue(r.Directory), textValue(r.Revision)
	if err := on.execute(revisionSQL, workspace, directory, revision, integerValue(r.Time.UnixMilli()), textValue(string(list)),
		textValue(string(r.Context)), archive); err != nil {
		return err
	}
	if err := on.execute(forgetArchivesSQL, workspace, directory, revision); err != nil {
		return err
	}
	return on.execute(forgetRevisionsSQL, workspace, integerValue(maxRevisions))
}

// ServedLast returns the set that a workspace served last from a directory, or
// ErrNotFound. A file of an earlier version of Cadenza has none.
func (r *Reader) ServedLast(ctx context.Context, workspace, directory string) (*recorder.Revision, error) {
	if kept, err := r.keepsRevisions(ctx); err != nil {
		return nil, err
	} else if !kept {
		return nil, ErrNotFound
	}
	last := &recorder.Revision{Workspace: workspace, Directory: directory}
	var (
		served int64
		list   []byte
	)
	err := r.db.QueryRowContext(ctx,
		"SELECT revision, served_ms, versions, context, archive FROM revisions WHERE workspace = ? AND directory = ? ORDER BY seq DESC LIMIT 1",
		workspace, directory).Scan(&last.Revision, &served, &list, &last.Context, &last.Archive)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	last.Time = time.UnixMilli(served)
	if last.Versions, err = readVersions(workspace, list); err != nil {
		return nil, fmt.Errorf("the versions of revision %s: %w", last.Revision, err)
	}
	return last, nil
}
