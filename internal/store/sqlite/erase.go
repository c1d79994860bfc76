package sqlite

import (
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
	// One transaction deletes at most eraseRows and about eraseBytes of content: the file's
	// writer waits for it. One query looks at eraseScan rows: SQLite can't restart the log
	// meanwhile.
	eraseRows  = 500
	eraseBytes = 1 << 20
	eraseScan  = 20_000

	// pageBytes is the size of a page, of the file and of its log.
	pageBytes = 4 << 10

	// eraseIDs bounds the traces and decisions that one part of an erasure names.
	eraseIDs = 5_000

	// cleanTime bounds how long an erasure waits for the readers that still need
	// the log.
	cleanTime = 20 * time.Second
)

// Erase deletes the traces that the selector chooses, the reports on them and on their
// decisions, and the replies that name them, as far as they were stored when it began. If
// the selector chooses a report on a decision, it chooses all traces of the decision. Erase
// stores the selector, which outboxes deliver to the sinks. If it returns no error, no
// bytes of the deleted rows are left in the file and its log; after an error it may be
// called again. It does not find a reply whose trace the retention has deleted: that reply
// expires within a day.
//
// Erase works on a connection of its own, a little at a time, also while a Store writes to
// the file. Rows that are written meanwhile, such as the end of a call, belong to the next
// erasure.
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
	db, err := openDatabase(secondWriterDSN(path, "secure_delete(ON)"), 1)
	if err != nil {
		return trace.Erased{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return trace.Erased{}, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := checkFormat(ctx, conn); err != nil {
		return trace.Erased{}, err
	}
	if err := checkLayout(ctx, conn); err != nil {
		return trace.Erased{}, err
	}
	if !dry {
		if _, err := conn.ExecContext(ctx, textsSchema+experimentsSchema+rolloutsSchema); err != nil {
			return trace.Erased{}, err
		}
	}
	e := &erasure{conn: conn, turn: turnOf(path), selector: selector, dry: dry}
	steps := []func(context.Context) error{e.begin, e.find, e.delete, e.forgetUnit, e.forgetRefusals, e.mergeTerms, e.clean}
	if dry {
		steps = []func(context.Context) error{e.begin, e.find, e.count}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return e.erased, err
		}
	}
	return e.erased, sameFile(path, file) // a file that replaced it has not been erased
}

// erasure is a running erasure. It keeps the ids that it found in temporary tables of its
// connection, in memory.
type erasure struct {
	conn     *sql.Conn
	turn     *sync.Mutex
	selector trace.Selector
	dry      bool           // it only counts: the sinks learn nothing, and no row is deleted
	marks    trace.Position // the greatest seq of each table when it began
	began    time.Time
	erased   trace.Erased
	logged   int64 // about how much the log grew since it was copied, in pages
}

// begin notes where each table ends, and stores the selector for the sinks.
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
		return e.announce(ctx, tx, nil)
	})
}

// count counts the rows that find found.
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

// announce stores the erasure, or a part of it, for the sinks.
func (e *erasure) announce(ctx context.Context, tx *sql.Tx, reportedOn []byte) error {
	if e.dry {
		return nil
	}
	value := e.selector.UnitValue
	if e.selector.UnitHashed {
		value = ""
	}
	_, err := tx.ExecContext(ctx, `
INSERT INTO erasures (time_ms, workspace, conversation_id, metadata_name, metadata_value, decision_id, traces, metrics, reported_on, unit_field, unit, unit_value)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, e.began.UnixMilli(), e.selector.Workspace, text(e.selector.ConversationID), text(e.selector.MetadataName),
		text(e.selector.MetadataValue), idOrNull(&e.selector.Decision), e.marks.Traces, e.marks.Metrics, reportedOn,
		text(e.selector.UnitField), text(e.selector.Unit), text(value))
	return err
}

// announceReported names the traces that reports chose to the sinks: a sink may have such a
// trace, and never get the report that says whose it is.
func (e *erasure) announceReported(ctx context.Context) error {
	ids, err := collect(ctx, e.conn, scanID, "SELECT trace_id FROM doomed WHERE named_by IS NOT NULL ORDER BY n")
	if err != nil {
		return err
	}
	for part := range slices.Chunk(ids, eraseIDs) {
		var list []byte
		for i := range part {
			list = append(list, part[i][:]...)
		}
		if err := e.transact(ctx, func(tx *sql.Tx) error { return e.announce(ctx, tx, list) }); err != nil {
			return err
		}
	}
	return nil
}

// find gathers the ids of the traces before any is deleted: often only a report
// says whose a trace is. named_by is the last such report of a trace, and NULL if
// only the trace's own row says so.
func (e *erasure) find(ctx context.Context) (err error) {
	switch {
	case e.selector.Unit != "":
		err = e.findByUnit(ctx)
	case e.selector.Decision.IsZero():
		err = e.findNamed(ctx)
	default:
		_, err = e.conn.ExecContext(ctx, "INSERT INTO doomed (trace_id) VALUES (?)", e.selector.Decision[:])
	}
	if err != nil {
		return err
	}
	if err := e.announceReported(ctx); err != nil {
		return err
	}
	if err := e.findByDecision(ctx); err != nil {
		return err
	}
	if err := e.lastThoseOfUnit(ctx); err != nil {
		return err
	}
	_, err = e.conn.ExecContext(ctx, `
INSERT INTO doomed_replies (n, seq)
SELECT n, seq FROM replies CROSS JOIN doomed AS d ON d.trace_id = `+repliedTo+` WHERE workspace = ?`, e.selector.Workspace)
	return err
}

// findNamed finds the traces that name the conversation or have the member of metadata,
// themselves or in a report.
func (e *erasure) findNamed(ctx context.Context) error {
	match := e.selector.Match()
	if e.selector.ConversationID != "" {
		value, err := json.Marshal(e.selector.ConversationID)
		if err != nil {
			return err
		}
		match = trace.MetadataMatch{Name: "conversation_id", Value: string(value)}
	}
	// The reports come second: they set named_by even if the trace's own row matches.
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

// repliedTo is the subject of a reply: a trace or, if it answered a report on a decision,
// the decision.
const repliedTo = "coalesce(replies.trace_id, replies.decision_id)"

// findByDecision adds the traces of the decisions on which there are chosen reports, and
// then the decisions of all chosen traces, as reports on these may say anything about the
// traces. The latter choose no further traces: a trace that only a report on it chose is no
// reason to delete others.
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

// findByMetadata looks up the traces that may match in the index, and reads all reports,
// eraseScan at a time.
func (e *erasure) findByMetadata(ctx context.Context, t *table, namedBy string, match trace.MetadataMatch) error {
	var where clauses
	if err := where.metadata(t.metadata, []trace.MetadataMatch{match}); err != nil {
		return err
	}
	find := func(source string, args ...any) error {
		_, err := e.conn.ExecContext(ctx, fmt.Sprintf("INSERT INTO doomed (trace_id, named_by) SELECT %s, %s FROM %s AND seq <= ? AND workspace = ? AND %s IS NOT NULL AND %s ORDER BY seq",
			t.id, namedBy, source, t.metadata, where.and())+named, slices.Concat(args, []any{t.position(e.marks), e.selector.Workspace}, where.args)...)
		return err
	}
	if t == tracesTable {
		return e.eachIndexed(ctx, match, func(milliseconds []int64) error {
			return find("("+rangesQuery+") CROSS JOIN traces INDEXED BY sqlite_autoindex_traces_1 WHERE id >= first AND id < last", packRanges(milliseconds)...)
		})
	}
	return e.eachRows(ctx, t, func(after, last int64) error {
		return find(t.name+" WHERE seq > ? AND seq <= ?", after, last)
	})
}

// eachRows calls f with the seqs of all rows of a table, eraseScan at a time.
func (e *erasure) eachRows(ctx context.Context, t *table, f func(after, last int64) error) error {
	mark := t.position(e.marks)
	for seq := int64(0); seq < mark; {
		end, err := queryInt(ctx, e.conn, fmt.Sprintf(
			"SELECT coalesce(max(seq), ?) FROM (SELECT seq FROM %s WHERE seq > ? ORDER BY seq LIMIT ?)", t.name), mark, seq, eraseScan)
		if err != nil {
			return err
		}
		if err := f(seq, end); err != nil {
			return err
		}
		seq = end
	}
	return nil
}

// Keyset-paged queries for the replies, reports and traces that are to be deleted;
// (?1, ?2) is the last row that was seen, by the number of its trace and its seq. A trace
// may have any number of reports and replies.
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
SELECT n, t.seq, ` + textBytes(trace.RecordFields) + ` + ` + historySize + ` + coalesce((
		SELECT coalesce(octet_length(d.notes), 0) + coalesce(octet_length(d.metadata), 0) + coalesce(octet_length(d.context), 0) + coalesce(octet_length(d.variables), 0)
		FROM decisions AS d WHERE d.id = t.decision_id AND t.shared IS NOT NULL AND t.seq = (
			SELECT max(seq) FROM traces INDEXED BY traces_decision WHERE decision_id = d.id AND shared IS NOT NULL
		)
	), 0)
FROM doomed CROSS JOIN traces AS t ON t.id = trace_id
WHERE n >= ?1 AND (n > ?1 OR t.seq > ?2) AND t.seq <= ?3 AND workspace = ?4
ORDER BY n, t.seq LIMIT ?5`

// delete deletes the found rows, a few in each transaction: replies, reports, the traces'
// own rows and last the reports in named_by. These say whose the traces are, so an erasure
// that is tried again finds the remaining rows.
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

// withinBytes returns the first rows, as many as one transaction may delete.
func withinBytes(rows []doomedRow) []doomedRow {
	size := int64(0)
	for i, r := range rows {
		if size += r.size; size > eraseBytes {
			return rows[:max(i, 1)]
		}
	}
	return rows
}

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
		var doomed []indexed
		if table == "traces" {
			if doomed, err = readTerms(ctx, tx, "seq IN (SELECT value FROM json_each(?))", string(list)); err != nil {
				return err
			}
		}
		result, err := tx.ExecContext(ctx, remove, string(list))
		if err != nil {
			return err
		}
		if deleted, err = result.RowsAffected(); err != nil {
			return err
		}
		return deleteTerms(ctx, tx, doomed)
	})
	return deleted, err
}

// copyLog copies the log into the database once deletions have made it long, most of it
// while the writer works, so that the next transaction restarts the log. Otherwise a commit
// would copy it while the writer waits.
func (e *erasure) copyLog(ctx context.Context, deleted []doomedRow) error {
	for _, r := range deleted {
		e.logged += 1 + r.size/pageBytes
	}
	if e.logged < longLog {
		return nil
	}
	e.logged = 0
	_, uncopied, err := checkpoint(ctx, e.conn)
	if err != nil || uncopied == 0 {
		return err
	}
	e.turn.Lock()
	defer e.turn.Unlock()
	_, _, err = checkpoint(ctx, e.conn)
	return err
}

func (e *erasure) transact(ctx context.Context, work func(*sql.Tx) error) error {
	return transactInTurn(ctx, e.conn, e.turn, work)
}

// clean removes the bytes of deleted rows from the file and its log.
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

// dropFreePages returns all free pages to the file system. A page that was moved before the
// erasure may contain a copy of a row.
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

// emptyLog copies the log into the database and truncates it.
func (e *erasure) emptyLog(ctx context.Context) error {
	// A checkpoint that waits for readers keeps the writer out. So this loop waits instead.
	if _, err := e.conn.ExecContext(ctx, "PRAGMA busy_timeout = 10"); err != nil {
		return err
	}
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		if _, _, err := checkpoint(ctx, e.conn); err != nil { // most of it, while the writer works
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
