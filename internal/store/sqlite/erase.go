package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// What one transaction of an erasure deletes, in rows and in bytes of their
	// content (about), and what one query looks at, in rows. The writer of the file
	// waits for the transaction. SQLite can't restart the log during the query.
	eraseRows  = 500
	eraseBytes = 1 << 20
	eraseScan  = 20_000

	// pageBytes is what a page of the log holds.
	pageBytes = 4 << 10

	// eraseIDs is how many traces and decisions one part of an erasure names.
	eraseIDs = 5_000

	// cleanTime bounds how long an erasure waits for the readers that still need
	// the log.
	cleanTime = 20 * time.Second
)

// Erase deletes the traces that the selector chooses, the reports on them and on their
// decisions, and the replies that name them, of what was stored when it began. A report on
// a decision that the selector chooses, it chooses all traces of. It keeps the selector
// for the sinks, to which it is delivered. When Erase returns without an error, nothing of
// what it deleted is left in the bytes of the file and its log; after an error it may be
// called again. It does not find a reply whose trace the retention deleted before: that
// reply expires within a day.
//
// Erase works on a connection of its own, a little at a time, also while a Store
// writes to the file. What is written meanwhile, such as the end of a call, belongs
// to the next erasure.
func Erase(ctx context.Context, path string, selector trace.Selector) (trace.Erased, error) {
	return openAndErase(ctx, path, selector, false)
}

// CountErasure returns what Erase would erase now, and erases nothing.
func CountErasure(ctx context.Context, path string, selector trace.Selector) (trace.Erased, error) {
	return openAndErase(ctx, path, selector, true)
}

func openAndErase(ctx context.Context, path string, selector trace.Selector, dry bool) (trace.Erased, error) {
	if err := selector.Validate(); err != nil {
		return trace.Erased{}, err
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return trace.Erased{}, err
	}
	erased, err := erase(ctx, path, selector, dry)
	if err != nil {
		err = fmt.Errorf("erasing from the trace store %s: %w", path, classify(err))
	}
	return erased, err
}

func erase(ctx context.Context, path string, selector trace.Selector, dry bool) (_ trace.Erased, err error) {
	file, err := os.Stat(path)
	if err != nil {
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
	e := &erasure{conn: conn, turn: turnOf(path), selector: selector, dry: dry}
	steps := []func(context.Context) error{e.begin, e.find, e.delete, e.forgetRefusals, e.cleanBlocks, e.clean}
	if dry {
		steps = []func(context.Context) error{e.begin, e.find, e.count}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return e.erased, err
		}
	}
	return e.erased, sameFile(path, file) // or the next one's is still to be erased
}

// erasure is an erasure that is under way. It keeps what it found in temporary
// tables of its connection, in memory.
type erasure struct {
	conn     *sql.Conn
	turn     *sync.Mutex
	selector trace.Selector
	dry      bool           // nothing is told to the sinks, and nothing deleted
	marks    trace.Position // the greatest seq of each table when it began
	began    time.Time
	erased   trace.Erased
	logged   int64 // about how long the log became since it was copied, in pages
}

// begin marks what the erasure concerns, for itself and for the sinks.
func (e *erasure) begin(ctx context.Context) error {
	if _, err := e.conn.ExecContext(ctx, `
CREATE TEMP TABLE doomed (n INTEGER PRIMARY KEY, trace_id BLOB NOT NULL UNIQUE, named_by INTEGER);
CREATE TEMP TABLE doomed_replies (n INTEGER NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (n, seq)) WITHOUT ROWID`); err != nil {
		return err
	}
	e.began = time.Now()
	return e.transact(ctx, func(tx *sql.Tx) (err error) {
		if e.marks, err = readGreatest(ctx, tx); err != nil {
			return err
		}
		return e.tell(ctx, tx, nil)
	})
}

// count counts what was found.
func (e *erasure) count(ctx context.Context) (err error) {
	for _, c := range []struct {
		count *int64
		query string
		mark  int64
	}{
		{&e.erased.Traces, "SELECT count(*) FROM doomed CROSS JOIN traces AS t ON t.id = trace_id WHERE t.seq <= ? AND workspace = ?", e.marks.Traces},
		{&e.erased.Metrics, "SELECT count(*) FROM doomed CROSS JOIN metrics AS m INDEXED BY metrics_trace_id USING (trace_id) WHERE m.seq <= ? AND workspace = ?", e.marks.Metrics},
		{&e.erased.Replies, "SELECT count(*) FROM doomed_replies WHERE ? >= 0 AND ? <> ''", 0},
	} {
		if *c.count, err = queryInt(ctx, e.conn, c.query, c.mark, e.selector.Workspace); err != nil {
			return err
		}
	}
	return nil
}

// tell keeps the erasure, or a part of it, for the sinks.
func (e *erasure) tell(ctx context.Context, tx *sql.Tx, reportedOn []byte) error {
	if e.dry {
		return nil
	}
	_, err := tx.ExecContext(ctx, `
INSERT INTO erasures (time_ms, workspace, conversation_id, metadata_name, metadata_value, decision_id, traces, metrics, reported_on)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`, e.began.UnixMilli(), e.selector.Workspace, text(e.selector.ConversationID), text(e.selector.MetadataName),
		text(e.selector.MetadataValue), idOrNull(&e.selector.Decision), e.marks.Traces, e.marks.Metrics, reportedOn)
	return err
}

// tellReported names to the sinks what reports chose: a sink may have a trace, and
// never get the report that says whose it is.
func (e *erasure) tellReported(ctx context.Context) error {
	ids, err := collect(ctx, e.conn, scanID, "SELECT trace_id FROM doomed WHERE named_by IS NOT NULL ORDER BY n")
	if err != nil {
		return err
	}
	for part := range slices.Chunk(ids, eraseIDs) {
		var list []byte
		for i := range part {
			list = append(list, part[i][:]...)
		}
		if err := e.transact(ctx, func(tx *sql.Tx) error { return e.tell(ctx, tx, list) }); err != nil {
			return err
		}
	}
	return nil
}

// find gathers the ids of the traces before any is deleted: often only a report
// says whose a trace is. named_by is the last such report of a trace, and NULL if
// only the trace's own row says so.
func (e *erasure) find(ctx context.Context) (err error) {
	if e.selector.Decision.IsZero() {
		err = e.findNamed(ctx)
	} else {
		_, err = e.conn.ExecContext(ctx, "INSERT INTO doomed (trace_id) VALUES (?)", e.selector.Decision[:])
	}
	if err != nil {
		return err
	}
	if err := e.tellReported(ctx); err != nil {
		return err
	}
	if err := e.findByDecision(ctx); err != nil {
		return err
	}
	_, err = e.conn.ExecContext(ctx, `
INSERT INTO doomed_replies (n, seq)
SELECT n, seq FROM replies CROSS JOIN doomed AS d ON d.trace_id = `+repliedTo+` WHERE workspace = ?`, e.selector.Workspace)
	return err
}

// findNamed finds what names the conversation or has the member of the metadata.
func (e *erasure) findNamed(ctx context.Context) error {
	match := e.selector.Match()
	if e.selector.ConversationID != "" {
		value, err := json.Marshal(e.selector.ConversationID)
		if err != nil {
			return err
		}
		match = trace.MetadataMatch{Name: "conversation_id", Value: string(value)}
	}
	// The reports come second: they set named_by also where the trace's row says so.
	if err := e.findByMetadata(ctx, tracesTable, "NULL", match); err != nil {
		return err
	}
	if e.selector.ConversationID == "" {
		return e.findByMetadata(ctx, metricsTable, "seq", match)
	}
	_, err := e.conn.ExecContext(ctx, `
INSERT INTO doomed (trace_id, named_by)
SELECT trace_id, max(seq) FROM metrics INDEXED BY metrics_conversation_id
WHERE conversation_id = ? AND workspace = ? AND seq <= ? GROUP BY trace_id`+named,
		e.selector.ConversationID, e.selector.Workspace, e.marks.Metrics)
	return err
}

// repliedTo is what a reply is about: a trace or, to a report on one, a decision.
const repliedTo = "coalesce(replies.trace_id, replies.decision_id)"

// findByDecision adds the traces of the decisions on which a chosen report is, and
// then the decisions of all chosen traces, whose reports may say anything of them.
// These choose no further traces: one that is chosen by what was reported on it
// alone is no reason to delete others.
func (e *erasure) findByDecision(ctx context.Context) error {
	low, high := trace.KindDecision.IDBytes()
	decisions, err := collect(ctx, e.conn, scanID, "SELECT trace_id FROM doomed WHERE substr(trace_id, 7, 1) IN (?, ?)", []byte{low}, []byte{high})
	if err != nil {
		return err
	}
	for _, decision := range decisions {
		if _, err := e.conn.ExecContext(ctx, "INSERT OR IGNORE INTO doomed (trace_id) "+tracesOfDecision, rangesOf(decision)...); err != nil {
			return err
		}
	}
	_, err = e.conn.ExecContext(ctx, `
INSERT OR IGNORE INTO doomed (trace_id)
SELECT t.decision_id FROM doomed CROSS JOIN traces AS t ON t.id = trace_id
WHERE t.decision_id IS NOT NULL AND t.seq <= ? AND t.workspace = ?`, e.marks.Traces, e.selector.Workspace)
	return err
}

// named ends an insertion into doomed of traces that may be in it already.
const named = " ON CONFLICT (trace_id) DO UPDATE SET named_by = excluded.named_by"

// findByMetadata reads the table, eraseScan rows at a time, but for the traces that
// are posted: of these it looks up those that may match.
func (e *erasure) findByMetadata(ctx context.Context, t *table, namedBy string, match trace.MetadataMatch) error {
	var where clauses
	if err := where.metadata(t.metadata, []trace.MetadataMatch{match}); err != nil {
		return err
	}
	query := fmt.Sprintf("INSERT INTO doomed (trace_id, named_by) SELECT %s, %s FROM %s WHERE seq > ? AND seq <= ? AND workspace = ? AND %s IS NOT NULL AND %s ORDER BY seq",
		t.id, namedBy, t.name, t.metadata, where.and()) + named
	mark, from := t.position(e.marks), int64(0)
	if t == tracesTable {
		var err error
		if from, err = e.findPosted(ctx, match, strings.Replace(query, "WHERE", "WHERE seq IN (SELECT value FROM json_each(?)) AND", 1), where.args); err != nil {
			return err
		}
	}
	for from < mark {
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

// findPosted runs the query for the traces that may match of each block that is
// posted, and returns the seq of the last.
func (e *erasure) findPosted(ctx context.Context, match trace.MetadataMatch, query string, args []any) (posted int64, err error) {
	all, err := readBlocks(ctx, e.conn, clauses{})
	if err != nil || all == nil {
		return 0, err
	}
	by := wanted{odd: oddTerm(e.selector.Workspace)}
	if err := by.addMembers(e.selector.Workspace, []trace.MetadataMatch{match}); err != nil {
		return 0, err
	}
	pieces, err := e.conn.PrepareContext(ctx, selectPiece)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, pieces.Close()) }()
	for i := range all.blocks {
		b := &all.blocks[i]
		rows, n, err := by.candidates(ctx, pieces, b)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			continue
		}
		if _, err := e.conn.ExecContext(ctx, query, slices.Concat(
			[]any{seqsOf(b.number, rows, n), 0, e.marks.Traces, e.selector.Workspace}, args)...); err != nil {
			return 0, err
		}
	}
	return all.posted, nil
}

// Keyset-paged queries for the replies, reports and traces that are to be deleted;
// (?1, ?2) is the last row that was seen, by the number of its trace and its seq.
// A trace may have any number of reports and replies.
const (
	doomedReplies = `
SELECT n, r.seq, octet_length(body)
FROM doomed_replies AS d CROSS JOIN replies AS r USING (seq)
WHERE (n, d.seq) > (?1, ?2) AND r.seq <= ?3 AND workspace = ?4
ORDER BY n, d.seq LIMIT ?5`
	doomedReports = `
SELECT n, m.seq, coalesce(octet_length(llm_response), 0) + coalesce(octet_length(metadata), 0) + coalesce(octet_length(named_values), 0)
FROM doomed CROSS JOIN metrics AS m INDEXED BY metrics_trace_id USING (trace_id)
WHERE n >= ?1 AND (n > ?1 OR m.seq > ?2) AND m.seq <= ?3 AND workspace = ?4
ORDER BY n, m.seq LIMIT ?5`
)

// A decision goes with the last of its traces.
var doomedTraces = `
SELECT n, t.seq, ` + textBytes(trace.RecordFields) + ` + coalesce((
		SELECT coalesce(octet_length(d.notes), 0) + coalesce(octet_length(d.metadata), 0) + coalesce(octet_length(d.context), 0) + coalesce(octet_length(d.variables), 0)
		FROM decisions AS d WHERE d.id = t.decision_id AND t.shared IS NOT NULL AND t.seq = (
			SELECT max(seq) FROM traces INDEXED BY traces_decision WHERE decision_id = d.id AND shared IS NOT NULL
		)
	), 0)
FROM doomed CROSS JOIN traces AS t ON t.id = trace_id
WHERE n >= ?1 AND (n > ?1 OR t.seq > ?2) AND t.seq <= ?3 AND workspace = ?4
ORDER BY n, t.seq LIMIT ?5`

// delete deletes what was found, a little in each transaction: the replies, the
// reports, the traces' own rows and last the reports in named_by. What says whose
// the traces are goes last, so that an erasure that is tried again finds the rest.
func (e *erasure) delete(ctx context.Context) error {
	const everyReply = 1<<63 - 1
	allButNaming := strings.Replace(doomedReports, "ORDER BY", "AND m.seq IS NOT named_by ORDER BY", 1)
	for _, d := range []struct {
		count  *int64
		table  string
		choose string
		mark   int64
	}{
		{&e.erased.Replies, "replies", doomedReplies, everyReply},
		{&e.erased.Metrics, "metrics", allButNaming, e.marks.Metrics},
		{&e.erased.Traces, "traces", doomedTraces, e.marks.Traces},
		{&e.erased.Metrics, "metrics", doomedReports, e.marks.Metrics},
	} {
		remove := "DELETE FROM " + d.table + " WHERE seq IN (SELECT value FROM json_each(?))"
		if d.table == "replies" { // the row may by now be another reply of the same key
			remove += " AND " + repliedTo + " IN (SELECT trace_id FROM doomed)"
		}
		for n, seq := int64(0), int64(0); ; {
			chosen, err := collect(ctx, e.conn, scanDoomed, d.choose, n, seq, d.mark, e.selector.Workspace, eraseRows)
			if err != nil {
				return err
			}
			if len(chosen) == 0 {
				break
			}
			chosen = withinBytes(chosen)
			last := chosen[len(chosen)-1]
			n, seq = last.n, last.seq
			deleted, err := e.deleteRows(ctx, d.table, remove, chosen)
			if err != nil {
				return err
			}
			*d.count += deleted
			if err := e.copyLog(ctx, chosen); err != nil {
				return err
			}
		}
	}
	return nil
}

// doomedRow is a row that is to be deleted with the nth trace.
type doomedRow struct{ n, seq, size int64 }

func scanDoomed(scan func(...any) error) (r doomedRow, err error) {
	return r, scan(&r.n, &r.seq, &r.size)
}

// withinBytes returns the first of the rows that one transaction may delete.
func withinBytes(rows []doomedRow) []doomedRow {
	size := int64(0)
	for i, r := range rows {
		if size += r.size; size > eraseBytes {
			return rows[:max(i, 1)]
		}
	}
	return rows
}

// staleBlocks has the blocks cleaned of which traces are deleted: they are known also
// to the next erasure, if this one is interrupted.
const staleBlocks = "UPDATE posting_blocks SET stale = stale + 1 WHERE block IN (SELECT value / ? FROM json_each(?))"

func (e *erasure) deleteRows(ctx context.Context, table, remove string, rows []doomedRow) (deleted int64, err error) {
	seqs := make([]int64, len(rows))
	for i, r := range rows {
		seqs[i] = r.seq
	}
	list, err := json.Marshal(seqs)
	if err != nil {
		return 0, err
	}
	err = e.transact(ctx, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, remove, string(list))
		if err != nil {
			return err
		}
		if deleted, err = result.RowsAffected(); err != nil || table != "traces" {
			return err
		}
		if _, err := tx.ExecContext(ctx, staleBlocks, blockRows, string(list)); err != nil {
			return err
		}
		// Blocks that are being made are made again.
		_, err = tx.ExecContext(ctx, "UPDATE cursors SET erasures = erasures + 1 WHERE sink = ?", postingsCursor)
		return err
	})
	if err != nil {
		return 0, err
	}
	return deleted, nil
}

// cleanBlocks takes the entries of deleted traces out of the postings, those of one
// block in each transaction.
func (e *erasure) cleanBlocks(ctx context.Context) error {
	type staleBlock struct{ number, times int64 }
	stale, err := collect(ctx, e.conn, func(scan func(...any) error) (b staleBlock, err error) {
		return b, scan(&b.number, &b.times)
	}, "SELECT block, stale FROM posting_blocks WHERE stale > 0")
	if err != nil {
		return err
	}
	for _, b := range stale {
		var kept rowSet
		if _, err := collect(ctx, e.conn, func(scan func(...any) error) (_ struct{}, err error) {
			var seq int64
			err = scan(&seq)
			kept.add(uint16(seq % blockRows))
			return struct{}{}, err
		}, "SELECT seq FROM traces NOT INDEXED WHERE seq >= ? AND seq < ?", b.number*blockRows, (b.number+1)*blockRows); err != nil {
			return err
		}
		type piece struct {
			place   int64
			entries []byte
		}
		pieces, err := collect(ctx, e.conn, func(scan func(...any) error) (p piece, err error) {
			return p, scan(&p.place, &p.entries)
		}, "SELECT place, entries FROM "+piecesOf, b.number, allBuckets)
		if err != nil {
			return err
		}
		if err := e.transact(ctx, func(tx *sql.Tx) error {
			for _, p := range pieces {
				only := onlyRows(p.entries, &kept)
				if bytes.Equal(only, p.entries) {
					continue
				}
				if _, err := tx.ExecContext(ctx, "UPDATE posting_pieces SET entries = ? WHERE place = ?", only, p.place); err != nil {
					return err
				}
			}
			_, err := tx.ExecContext(ctx, "UPDATE posting_blocks SET stale = stale - ? WHERE block = ?", b.times, b.number)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// copyLog copies the log into the database once deletions have made it long, most
// of it beside the writer, so that the next transaction restarts the log.
// Otherwise a commit would copy it while the writer waits.
func (e *erasure) copyLog(ctx context.Context, deleted []doomedRow) error {
	for _, r := range deleted {
		e.logged += 1 + r.size/pageBytes
	}
	if e.logged < longLog {
		return nil
	}
	e.logged = 0
	_, rest, err := checkpoint(ctx, e.conn)
	if err != nil || rest == 0 {
		return err
	}
	e.turn.Lock()
	defer e.turn.Unlock()
	_, _, err = checkpoint(ctx, e.conn)
	return err
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

// clean removes what was deleted from the bytes of the file and of its log.
func (e *erasure) clean(ctx context.Context) error {
	err := e.wipeGaps(ctx)
	ctx, cancel := context.WithTimeoutCause(ctx, cleanTime, errors.New("others use the file and its log without a pause"))
	defer cancel()
	if err == nil {
		err = e.dropFreePages(ctx)
	}
	if err == nil {
		err = e.emptyLog(ctx)
	}
	if err != nil {
		return fmt.Errorf("the rows are deleted, but their content may still stand in the file or its log; try again: %w",
			errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

// dropFreePages gives all free pages back to the file system. A page that was
// moved before the erasure may hold a copy of a row.
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
		if _, _, err := checkpoint(ctx, e.conn); err != nil { // most of it, beside the writer
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
