package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

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
// empty, the one that was served last first. Where several directories had the same,
// it is one. The store keeps the 100 that were served last, as long as the retention
// allows; a file of an earlier version of Cadenza has none.
func (r *Reader) Revisions(ctx context.Context, workspace, begin string) ([]ServedRevision, error) {
	if kept, err := r.keepsRevisions(ctx); err != nil || !kept {
		return nil, err
	}
	return collect(ctx, r.db, func(scan func(...any) error) (v ServedRevision, err error) {
		var first, served int64
		err = scan(&v.Revision, &first, &served, &v.Latest)
		v.FirstSeen, v.Served = time.UnixMilli(first), time.UnixMilli(served)
		return v, err
	}, `
SELECT revision, min(first_seen_ms), max(served_ms), max(seq) = (SELECT max(seq) FROM revisions WHERE workspace = ?1)
FROM revisions WHERE workspace = ?1 AND substr(revision, 1, length(?2)) = ?2
GROUP BY revision ORDER BY max(seq) DESC`, workspace, begin)
}

// keepsRevisions reports whether the file has revisions. One of an earlier version of
// Cadenza has none.
func (r *Reader) keepsRevisions(ctx context.Context) (bool, error) {
	tables, err := queryInt(ctx, r.db, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'revisions'")
	return tables > 0, err
}

// StoredRevision is a revision with all that it consists of.
type StoredRevision struct {
	ServedRevision
	Context  []byte // the data model's file; empty: there was none
	Versions []trace.Version
}

// Revision returns a revision of a workspace with its contents, or ErrNotFound.
func (r *Reader) Revision(ctx context.Context, workspace, revision string) (*StoredRevision, error) {
	found, err := r.Revisions(ctx, workspace, revision)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 || found[0].Revision != revision {
		return nil, ErrNotFound
	}
	s := &StoredRevision{ServedRevision: found[0]}
	var list []byte
	err = r.db.QueryRowContext(ctx, "SELECT versions, context FROM revisions WHERE workspace = ? AND revision = ? ORDER BY seq DESC LIMIT 1", workspace, revision).
		Scan(&list, &s.Context)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNotFound // deleted meanwhile
	}
	if err != nil {
		return nil, err
	}
	if s.Versions, err = readVersions(workspace, list); err != nil {
		return nil, fmt.Errorf("the versions of revision %s: %w", revision, err)
	}
	statement, err := r.db.PrepareContext(ctx, "SELECT first_seen_ms, content FROM versions WHERE workspace = ? AND kind = ? AND key = ? AND version = ?")
	if err != nil {
		return nil, err
	}
	defer func() { _ = statement.Close() }()
	for i := range s.Versions {
		v := &s.Versions[i]
		var first int64
		err := statement.QueryRowContext(ctx, workspace, v.Kind.String(), v.Key, v.Version).Scan(&first, &v.Content)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, fmt.Errorf("revision %s: the store does not have version %s of the %s %s", revision, v.Version, v.Kind, v.Key)
		}
		if err != nil {
			return nil, err
		}
		v.Time = time.UnixMilli(first)
	}
	return s, nil
}

// readVersions reads the versions of a revision: [kind, key, version] each.
func readVersions(workspace string, list []byte) ([]trace.Version, error) {
	var versions [][3]string
	if err := json.Unmarshal(list, &versions); err != nil {
		return nil, err
	}
	out := make([]trace.Version, len(versions))
	for i, v := range versions {
		kind, _ := trace.ParseKind(v[0])
		out[i] = trace.Version{Workspace: workspace, Kind: kind, Key: v[1], Version: v[2]}
	}
	return out, nil
}
