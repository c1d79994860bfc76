package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// What one transaction of an erasure deletes, in traces, and what one query
	// looks at, in rows: the writer of the file waits for the one, and the log
	// can't be begun anew during the other.
	eraseTraces = 100
	eraseScan   = 20_000

	// cleanTime bounds how long an erasure waits for the readers that still need
	// the log.
	cleanTime = 20 * time.Second
)

// Erase deletes the traces that the selector chooses, the reports on them and
// the replies that name them, of what was stored when it began, and keeps the
// selector for the sinks, which are told of it. Nothing of what it deleted is
// left in the bytes of the file and its log when it returns without an error;
// after an error it may be called again. A reply whose trace the retention had
// deleted before is not found; it goes when it is a day old.
//
// It works on a connection of its own, a little at a time, also while a Store
// writes to the file. What is written meanwhile, such as the end of a call that
// is under way, is another erasure's.
func Erase(ctx context.Context, path string, selector trace.Selector) (trace.Erased, error) {
	if err := selector.Validate(); err != nil {
		return trace.Erased{}, err
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return trace.Erased{}, err
	}
	erased, err := erase(ctx, path, selector)
	if err != nil {
		err = fmt.Errorf("erasing from the trace store %s: %w", path, classify(err))
	}
	return erased, err
}

func erase(ctx context.Context, path string, selector trace.Selector) (_ trace.Erased, err error) {
	if _, err := os.Stat(path); err != nil {
		return trace.Erased{}, err
	}
	db, err := openDatabase(besideDSN(path, "secure_delete(ON)"), 1)
	if err != nil {
		return trace.Erased{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return trace.Erased{}, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := checkSchema(ctx, conn); err != nil {
		return trace.Erased{}, err
	}
	e := &erasure{conn: conn, turn: turnOf(path), selector: selector}
	for _, step := range []func(context.Context) error{e.begin, e.find, e.delete, e.clean} {
		if err := step(ctx); err != nil {
			return e.erased, err
		}
	}
	return e.erased, nil
}

// erasure is one that is under way. What it found stands in tables of its
// connection alone, in memory.
type erasure struct {
	conn     *sql.Conn
	turn     *sync.Mutex
	selector trace.Selector
	marks    trace.Position // the greatest seq of each table when it began
	erased   trace.Erased
}

// begin marks what the erasure concerns, for itself and for the sinks.
func (e *erasure) begin(ctx context.Context) error {
	if _, err := e.conn.ExecContext(ctx, `
CREATE TEMP TABLE doomed (n INTEGER PRIMARY KEY, trace_id BLOB NOT NULL UNIQUE);
CREATE TEMP TABLE doomed_replies (n INTEGER NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (n, seq)) WITHOUT ROWID`); err != nil {
		return err
	}
	return e.transact(ctx, func(tx *sql.Tx) (err error) {
		if e.marks, err = readGreatest(ctx, tx); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `
INSERT INTO erasures (time_ms, workspace, conversation_id, metadata_name, metadata_value, traces, metrics)
VALUES (?, ?, ?, ?, ?, ?, ?)`, time.Now().UnixMilli(), e.selector.Workspace, text(e.selector.ConversationID),
			text(e.selector.MetadataName), text(e.selector.MetadataValue), e.marks.Traces, e.marks.Metrics)
		return err
	})
}

// find gathers the ids of the traces before any is deleted: a trace is often
// known by its reports alone.
func (e *erasure) find(ctx context.Context) error {
	match := e.selector.Match()
	if e.selector.ConversationID != "" {
		if _, err := e.conn.ExecContext(ctx, `
INSERT OR IGNORE INTO doomed (trace_id)
SELECT trace_id FROM metrics INDEXED BY metrics_conversation_id WHERE conversation_id = ? AND workspace = ? AND seq <= ?`,
			e.selector.ConversationID, e.selector.Workspace, e.marks.Metrics); err != nil {
			return err
		}
		value, err := json.Marshal(e.selector.ConversationID)
		if err != nil {
			return err
		}
		match = trace.MetadataMatch{Name: "conversation_id", Value: string(value)}
	}
	if err := e.findByMetadata(ctx, tracesTable, match); err != nil {
		return err
	}
	if e.selector.ConversationID == "" {
		if err := e.findByMetadata(ctx, metricsTable, match); err != nil {
			return err
		}
	}
	_, err := e.conn.ExecContext(ctx, `
INSERT INTO doomed_replies (n, seq)
SELECT n, seq FROM replies CROSS JOIN doomed USING (trace_id) WHERE workspace = ?`, e.selector.Workspace)
	return err
}

// findByMetadata reads the whole table, in pieces.
func (e *erasure) findByMetadata(ctx context.Context, t *table, match trace.MetadataMatch) error {
	var where clauses
	if err := where.metadata([]trace.MetadataMatch{match}); err != nil {
		return err
	}
	query := fmt.Sprintf("INSERT OR IGNORE INTO doomed (trace_id) SELECT %s FROM %s WHERE seq > ? AND seq <= ? AND workspace = ? AND metadata IS NOT NULL AND %s",
		t.id, t.name, where.and())
	mark := t.position(e.marks)
	for from := int64(0); from < mark; {
		to, err := queryInt(ctx, e.conn, fmt.Sprintf(
			"SELECT coalesce(max(seq), ?) FROM (SELECT seq FROM %s WHERE seq > ? ORDER BY seq LIMIT ?)", t.name), mark, from, eraseScan)
		if err != nil {
			return err
		}
		to = min(to, mark)
		if _, err := e.conn.ExecContext(ctx, query, append([]any{from, to, e.selector.Workspace}, where.args...)...); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// delete deletes what was found, a few traces in each transaction: with all that
// tells whose they were, or who tries again would not find the rest.
func (e *erasure) delete(ctx context.Context) error {
	found, err := queryInt(ctx, e.conn, "SELECT coalesce(max(n), 0) FROM doomed")
	if err != nil {
		return err
	}
	for n := int64(0); n < found; n += eraseTraces {
		var deleted trace.Erased
		if err := e.transact(ctx, func(tx *sql.Tx) (err error) {
			deleted, err = e.deleteSome(ctx, tx, n, n+eraseTraces)
			return err
		}); err != nil {
			return err
		}
		e.erased.Traces += deleted.Traces
		e.erased.Metrics += deleted.Metrics
		e.erased.Replies += deleted.Replies
	}
	return nil
}

func (e *erasure) deleteSome(ctx context.Context, tx *sql.Tx, after, until int64) (deleted trace.Erased, err error) {
	const chosen = "(SELECT trace_id FROM doomed WHERE n > ? AND n <= ?)"
	for _, d := range []struct {
		count *int64
		query string
		args  []any
	}{
		{&deleted.Metrics, "DELETE FROM metrics WHERE trace_id IN " + chosen + " AND workspace = ? AND seq <= ?", []any{e.selector.Workspace, e.marks.Metrics}},
		{&deleted.Traces, "DELETE FROM traces WHERE id IN " + chosen + " AND workspace = ? AND seq <= ?", []any{e.selector.Workspace, e.marks.Traces}},
		// The row may by now be another reply of the same key.
		{&deleted.Replies, "DELETE FROM replies WHERE seq IN (SELECT seq FROM doomed_replies WHERE n > ? AND n <= ?)" +
			" AND trace_id IN (SELECT trace_id FROM doomed)", nil},
	} {
		result, err := tx.ExecContext(ctx, d.query, append([]any{after, until}, d.args...)...)
		if err != nil {
			return trace.Erased{}, err
		}
		if *d.count, err = result.RowsAffected(); err != nil {
			return trace.Erased{}, err
		}
	}
	return deleted, nil
}

func (e *erasure) transact(ctx context.Context, work func(*sql.Tx) error) error {
	e.turn.Lock()
	defer e.turn.Unlock()
	tx, err := e.conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := work(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// clean takes what was deleted out of the bytes of the file and of its log.
func (e *erasure) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, cleanTime, errors.New("others use the file and its log without a pause"))
	defer cancel()
	err := e.dropFreePages(ctx)
	if err == nil {
		err = e.emptyLog(ctx)
	}
	if err != nil {
		return fmt.Errorf("the rows are deleted, but their content may still stand in the file or its log; try again: %w",
			errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

// dropFreePages gives all free pages back to the file system. A copy of a row
// may stand in one that was moved before the erasure.
func (e *erasure) dropFreePages(ctx context.Context) error {
	for {
		free, err := queryInt(ctx, e.conn, "PRAGMA freelist_count")
		if err != nil || free == 0 {
			return err
		}
		if err := e.transact(ctx, func(tx *sql.Tx) error { return incrementalVacuum(ctx, tx) }); err != nil {
			return err
		}
	}
}

// emptyLog copies the log into the database and cuts it to nothing.
func (e *erasure) emptyLog(ctx context.Context) error {
	// It keeps the writer out while it waits for readers: it waits here.
	if _, err := e.conn.ExecContext(ctx, "PRAGMA busy_timeout = 10"); err != nil {
		return err
	}
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		if _, _, err := checkpoint(ctx, e.conn); err != nil { // most of it, in nobody's way
			return err
		}
		var busy, length, copied int
		e.turn.Lock()
		err := e.conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &length, &copied)
		e.turn.Unlock()
		if err == nil && busy == 0 {
			return nil
		}
		if err != nil && resultCode(err) != sqlite3.SQLITE_BUSY && resultCode(err) != sqlite3.SQLITE_LOCKED {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}
