package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// ServedRevision is a set of definitions that a workspace served.
type ServedRevision struct {
	Revision  string
	FirstSeen time.Time // when it began to be served, the first time
	Served    time.Time // when it began to be served, the last time
	Latest    bool      // no other began to be served later
}

// Revisions returns the revisions of a workspace that begin with a text, which may be
// empty, the last served first. A revision that several directories had is one. The store
// keeps the 100 that were served last, as long as the retention and the bound on the size
// of their files allow.
func (r *Reader) Revisions(ctx context.Context, workspace, begin string) ([]ServedRevision, error) {
	return collect(ctx, r.db, func(scan func(...any) error) (v ServedRevision, err error) {
		return v, scan(&v.Revision, into{&v.FirstSeen}, into{&v.Served}, &v.Latest)
	}, `
SELECT revision, min(first_seen_ms), max(served_ms), max(seq) = (SELECT max(seq) FROM revisions WHERE workspace = ?1)
FROM revisions WHERE workspace = ?1 AND substr(revision, 1, length(?2)) = ?2
GROUP BY revision ORDER BY max(seq) DESC`, workspace, begin)
}

// StoredRevision is a revision with its files.
type StoredRevision struct {
	ServedRevision
	Files []trace.File
}

// Revision returns a revision of a workspace with the files that it had when it was served
// last, or ErrNotFound.
func (r *Reader) Revision(ctx context.Context, workspace, revision string) (*StoredRevision, error) {
	found, err := r.Revisions(ctx, workspace, revision)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 || found[0].Revision != revision {
		return nil, ErrNotFound
	}
	stored, err := r.stored(ctx, "revision", workspace, revision)
	if err != nil {
		return nil, err
	}
	return &StoredRevision{found[0], stored.Files}, nil
}

// ServedLast returns the set that a workspace served last from a directory, or
// ErrNotFound.
func (r *Reader) ServedLast(ctx context.Context, workspace, directory string) (*recorder.Revision, error) {
	return r.stored(ctx, "directory", workspace, directory)
}

// stored returns the set with a value in a column that a workspace served last, or
// ErrNotFound.
func (r *Reader) stored(ctx context.Context, column, workspace, value string) (*recorder.Revision, error) {
	set := &recorder.Revision{Workspace: workspace}
	rows, err := collect(ctx, r.db, func(scan func(...any) error) (f trace.File, err error) {
		var path, hash, content sql.NullString
		err = scan(&set.Directory, &set.Revision, into{&set.Time}, &path, &hash, &content)
		if err == nil && path.Valid && !content.Valid {
			err = fmt.Errorf("revision %s: the store does not have the file %s", set.Revision, path.String)
		}
		return trace.File{Path: path.String, Hash: hash.String, Content: content.String}, err
	}, fmt.Sprintf(`
SELECT directory, revision, served_ms, list.value->>0, list.value->>1, content
FROM revisions LEFT JOIN json_each(revisions.files) AS list LEFT JOIN files ON hash = list.value->>1
WHERE seq = (SELECT max(seq) FROM revisions WHERE workspace = ? AND %s = ?)
ORDER BY list.id`, column), workspace, value)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, ErrNotFound
	}
	if rows[0].Path != "" { // otherwise the set has no file
		set.Files = rows
	}
	return set, nil
}
