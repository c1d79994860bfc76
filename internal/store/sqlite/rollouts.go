package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/rollout"
)

// rolloutsKept is how long the rows of a rollout are kept that no definition has.
const rolloutsKept = 30 * 24 * time.Hour

// Rollouts has the rows of a workspace's rollouts in the file of a store. It works on a
// connection of its own, also while a Store writes to the file, and opens it again when the
// file was replaced. Its methods may be called concurrently, and fail while there is no file:
// the Store makes it.
type Rollouts struct {
	path, workspace string

	mu   sync.Mutex
	file os.FileInfo // of the file that was opened
	db   *sql.DB     // nil before the first call
}

var _ rollout.Log = (*Rollouts)(nil)

// NewRollouts returns the rollouts of a workspace in the file of a store. It opens nothing yet.
func NewRollouts(path, workspace string) *Rollouts {
	return &Rollouts{path: path, workspace: workspace}
}

// Close closes the connection.
func (l *Rollouts) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closeLocked()
}

func (l *Rollouts) closeLocked() (err error) {
	if l.db != nil {
		err = l.db.Close()
	}
	l.db = nil
	return err
}

// do calls work with the connection, one at a time.
func (l *Rollouts) do(ctx context.Context, work func(path string, db *sql.DB) error) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	path, err := filepath.Abs(l.path)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("rollouts of the trace store %s: %w", path, classify(err))
		}
	}()
	if l.db != nil && sameFile(path, l.file) != nil {
		err = l.closeLocked()
	}
	if l.db == nil && err == nil {
		err = l.openLocked(ctx, path)
	}
	if err != nil {
		return err
	}
	return errors.Join(work(path, l.db), sameFile(path, l.file)) // what a file that is set aside has is lost
}

func (l *Rollouts) openLocked(ctx context.Context, path string) (err error) {
	if l.file, err = os.Stat(path); err != nil {
		return err
	}
	if l.db, err = openDatabase(secondWriterDSN(path, "synchronous(FULL)", "secure_delete(FAST)"), 1); err != nil {
		return err
	}
	if err = checkFormat(ctx, l.db); err == nil {
		_, err = l.db.ExecContext(ctx, experimentsSchema+rolloutsSchema)
	}
	if err != nil {
		err = errors.Join(err, l.closeLocked())
	}
	return err
}

func (l *Rollouts) transact(ctx context.Context, work func(*sql.Tx) error) error {
	return l.do(ctx, func(path string, db *sql.DB) error { return transactInTurn(ctx, db, turnOf(path), work) })
}

const (
	rolloutColumns   = "rollout, number, time_ms, kind, share, edition, made_by, why, evidence"
	insertRolloutSQL = "INSERT INTO rollout_rows (workspace, " + rolloutColumns + ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)

func scanRolloutRow(scan func(...any) error) (r rollout.Row, err error) {
	var at int64
	var evidence []byte
	if err := scan(&r.Rollout, &r.Number, &at, &r.Kind, &r.Share, &r.Edition, &r.By, &r.Why, &evidence); err != nil {
		return r, err
	}
	r.Time = time.UnixMilli(at).UTC()
	if evidence != nil {
		err = json.Unmarshal(evidence, &r.Evidence)
	}
	return r, err
}

// Rows implements [rollout.Log].
func (l *Rollouts) Rows(ctx context.Context, known map[string]int64) (rows []rollout.Row, err error) {
	list, err := json.Marshal(known)
	if err != nil {
		return nil, err
	}
	err = l.do(ctx, func(_ string, db *sql.DB) error {
		rows, err = readRolloutRows(ctx, db, l.workspace, list)
		return err
	})
	return rows, err
}

func readRolloutRows(ctx context.Context, db querier, workspace string, known []byte) ([]rollout.Row, error) {
	return collect(ctx, db, scanRolloutRow, "SELECT "+rolloutColumns+` FROM rollout_rows AS r
WHERE workspace = ? AND number > coalesce((SELECT value FROM json_each(?) WHERE key = r.rollout), 0) ORDER BY rollout, number`, workspace, string(known))
}

// StoredRollouts returns the rows of a workspace's rollouts in the file of a store, in the
// order of [rollout.Log]. It neither makes nor changes the file: there are none where the
// file, or the table, is missing.
func StoredRollouts(ctx context.Context, path, workspace string) (rows []rollout.Row, err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	r, err := OpenReader(ctx, path)
	if errors.Is(err, errNoStore) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if there, err := queryInt(ctx, r.db, "SELECT count(*) FROM sqlite_schema WHERE name = 'rollout_rows'"); err != nil || there == 0 {
		return nil, err
	}
	return readRolloutRows(ctx, r.db, workspace, []byte("{}"))
}

// Add implements [rollout.Log]. The row is on the disk when it returns.
func (l *Rollouts) Add(ctx context.Context, row *rollout.Row) (added bool, err error) {
	err = l.transact(ctx, func(tx *sql.Tx) error {
		added, err = l.insert(ctx, tx, row)
		return err
	})
	return added && err == nil, err
}

func (l *Rollouts) insert(ctx context.Context, tx *sql.Tx, row *rollout.Row) (added bool, err error) {
	var evidence any
	if row.Evidence != nil {
		text, err := json.Marshal(row.Evidence)
		if err != nil {
			return false, err
		}
		evidence = string(text)
	}
	result, err := tx.ExecContext(ctx, insertRolloutSQL,
		l.workspace, row.Rollout, row.Number, row.Time.UnixMilli(), row.Kind, row.Share, row.Edition, row.By, row.Why, evidence)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// Replace makes the rows a copy of those that a fleet shares, which come in the order of
// [rollout.Log]; they need not be all. Where one differs from that of its number, it and the
// later ones of the rollout are replaced. The rows are on the disk when it returns.
func (l *Rollouts) Replace(ctx context.Context, rows []rollout.Row) error {
	if len(rows) == 0 {
		return nil
	}
	return l.transact(ctx, func(tx *sql.Tx) error {
		for i := range rows {
			r := &rows[i]
			if _, err := tx.ExecContext(ctx, `
DELETE FROM rollout_rows WHERE workspace = ?1 AND rollout = ?2 AND number >= ?3 AND EXISTS (
	SELECT 1 FROM rollout_rows WHERE workspace = ?1 AND rollout = ?2 AND number = ?3 AND (time_ms, kind, share, edition) IS NOT (?4, ?5, ?6, ?7))`,
				l.workspace, r.Rollout, r.Number, r.Time.UnixMilli(), r.Kind, r.Share, r.Edition); err != nil {
				return err
			}
			if _, err := l.insert(ctx, tx, r); err != nil {
				return err
			}
		}
		return nil
	})
}

// salvageRollouts returns the rows of a damaged file that can be read, with their workspaces.
func salvageRollouts(ctx context.Context, path string) (rows [][]any) {
	db, err := openDatabase(readerDSN(path), 1)
	if err != nil {
		return nil
	}
	defer func() { _ = db.Close() }() // read only: nothing can be lost
	_, _ = collect(ctx, db, func(scan func(...any) error) (struct{}, error) {
		row := make([]any, 1+strings.Count(rolloutColumns, ",")+1)
		to := make([]any, len(row))
		for i := range row {
			to[i] = &row[i]
		}
		err := scan(to...)
		if err == nil {
			rows = append(rows, row)
		}
		return struct{}{}, err
	}, "SELECT workspace, "+rolloutColumns+" FROM rollout_rows ORDER BY workspace, rollout, number")
	return rows
}

// keepRollouts stores rows that salvageRollouts returned, unless there are such.
func keepRollouts(ctx context.Context, conn *sql.Conn, rows [][]any) error {
	for _, row := range rows {
		if _, err := conn.ExecContext(ctx, insertRolloutSQL, row...); err != nil {
			return err
		}
	}
	return nil
}

// deleteRollouts deletes the rows of rollouts that have been gone for long.
func (k *experimentKeeper) deleteRollouts(ctx context.Context, now time.Time) error {
	const old = `rollout_rows AS r WHERE NOT EXISTS (
	SELECT 1 FROM rollout_rows WHERE workspace = r.workspace AND rollout = r.rollout AND coalesce(gone_ms > ?1, 1))`
	before := now.Add(-rolloutsKept).UnixMilli()
	exist, err := queryInt(ctx, k.db, "SELECT EXISTS (SELECT 1 FROM "+old+")", before)
	if err != nil || exist == 0 {
		return err // without a lock
	}
	return k.transact(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM "+old, before)
		return err
	})
}
