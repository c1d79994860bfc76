package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// The keeper looks every statsLook whether there are rows to count. A step
	// costs as much for few rows as for many in the same slots: fewer than
	// worthCounting wait for statsEvery. Each answer reads the rows that wait.
	statsLook     = time.Second
	statsEvery    = 10 * time.Second
	worthCounting = 4096

	// What one step counts, in rows, and how many slots it fills at most: the
	// first bounds its time, the second how long the recorder's writer can be
	// kept waiting, some 10 ms. With fewer slots than there are keys a step ends
	// after a few rows, and writes more than it counts. Between two steps the
	// writer has its turn.
	statsRows  = 16384
	statsSlots = 1024
	statsPause = 10 * time.Millisecond

	// statsBusyMillis is how long a step waits for its turn to write. There is
	// always another look, and closing the store waits for it.
	statsBusyMillis = 250

	// settled is the least age of metrics that are counted. They may be stored
	// before their trace, under which they count.
	settled = 2 * time.Second

	// statsExpireEvery is how often statistics beyond the retention are deleted.
	statsExpireEvery = time.Minute
)

// statsCursor is the name of the statistics' row among the cursors. Those of
// sinks have a slash in it.
const statsCursor = "stats"

// keepStats counts in the background, on a connection of its own. The transaction
// that adds what was counted also moves the cursor: each row counts once, also
// after a crash and with several processes on the file.
func (s *Store) keepStats(ctx context.Context) {
	ticker := time.NewTicker(statsLook)
	defer ticker.Stop()
	var keeper *statsKeeper
	defer func() { keeper.close() }()
	for failing := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		var err error
		if keeper == nil {
			keeper, err = openStatsKeeper(ctx, s.path, &s.feed)
		}
		if err == nil {
			err = keeper.look(ctx, s)
		}
		switch {
		case ctx.Err() != nil:
			return
		case isCorrupt(err):
			return // the next store counts on
		case err != nil && !isBusy(err):
			if !failing {
				failing = true
				s.config.Logger.Error("traces are not counted for the statistics; trying again", "error", err)
			}
			keeper.close()
			keeper = nil
		case err == nil:
			failing = false
		}
	}
}

// statsKeeper is the connection that counts.
type statsKeeper struct {
	db             *sql.DB // of one connection
	turn           *sync.Mutex
	feed           *feed // nil: all rows are read
	stored, update *sql.Stmt
	post           *sql.Stmt
	posting        posting
	series         map[series]int64 // their ids, as of
	swept          int64            // progress.swept
	expired        int64            // before which hour there are no statistics
	countAt        time.Time        // when few rows are counted too
	expireAt       time.Time
}

func openStatsKeeper(ctx context.Context, path string, feed *feed) (_ *statsKeeper, err error) {
	k := &statsKeeper{turn: turnOf(path), feed: feed, series: map[series]int64{}}
	defer func() {
		if err != nil {
			k.close()
		}
	}()
	// It does not wait for stable storage: what a power cut takes of the
	// statistics, it takes of the cursor too.
	if k.db, err = openDatabase(besideDSN(path, fmt.Sprintf("busy_timeout(%d)", statsBusyMillis)), 1); err != nil {
		return nil, err
	}
	if k.stored, err = k.db.PrepareContext(ctx, "SELECT "+readColumns+" FROM stats WHERE series = ? AND hours = ? AND start = ?"); err != nil {
		return nil, err
	}
	if k.update, err = k.db.PrepareContext(ctx, fmt.Sprintf(
		"INSERT OR REPLACE INTO stats (series, hours, start, %s) VALUES (?, ?, ?%s)", tallyColumns, strings.Repeat(", ?", len(new(tally).columns())))); err != nil {
		return nil, err
	}
	k.post, err = k.db.PrepareContext(ctx, insertPiece)
	return k, err
}

func (k *statsKeeper) close() {
	if k == nil {
		return
	}
	for _, stmt := range []*sql.Stmt{k.stored, k.update, k.post} {
		if stmt != nil {
			_ = stmt.Close()
		}
	}
	if k.db != nil {
		_ = k.db.Close() // nothing is lost: what was not committed is counted again
	}
}

// look counts and deletes what is due.
func (k *statsKeeper) look(ctx context.Context, s *Store) error {
	now := time.Now()
	if !now.Before(k.expireAt) {
		if err := k.expire(ctx, now, s.config.CurrentRetention()); err != nil {
			return err
		}
		if err := k.expirePostings(ctx); err != nil {
			return err
		}
		k.expireAt = now.Add(statsExpireEvery)
	}
	for {
		waiting, err := k.waiting(ctx)
		if err != nil || waiting == 0 || waiting < worthCounting && now.Before(k.countAt) {
			return err
		}
		more, err := k.step(ctx, now)
		if err != nil || !more {
			return err
		}
		k.countAt = now.Add(statsEvery)
		s.written.Store(true)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(statsPause):
		}
	}
}

// waiting is about how many rows have not been counted, or not posted.
func (k *statsKeeper) waiting(ctx context.Context) (int64, error) {
	return queryInt(ctx, k.db, `
SELECT (SELECT coalesce(max(seq), 0) FROM traces) - min(c.traces, max(p.traces, ?)) + (SELECT coalesce(max(seq), 0) FROM metrics) - c.metrics
FROM cursors AS c, cursors AS p WHERE c.sink = ? AND p.sink = ?`, k.posting.until, statsCursor, postingsCursor)
}

// isBusy reports whether err says that another holds the file's lock.
func isBusy(err error) bool { return resultCode(err) == sqlite3.SQLITE_BUSY }

// progress is how far the statistics have counted: a seq of each table. swept is how
// often series were deleted, whose ids other series may have since; the cursor has it
// in the column of versions.
type progress struct{ traces, metrics, swept int64 }

func statsProgress(ctx context.Context, on queryer) (p progress, err error) {
	err = on.QueryRowContext(ctx, "SELECT traces, metrics, versions FROM cursors WHERE sink = ?", statsCursor).Scan(&p.traces, &p.metrics, &p.swept)
	return p, err
}

// step counts some of what comes after the cursor, or posts some of what was
// counted, and reports whether it found anything.
func (k *statsKeeper) step(ctx context.Context, now time.Time) (more bool, err error) {
	passed := k.posting.until
	before, after, counted, err := k.count(ctx, now)
	if err != nil {
		return false, err
	}
	more = before != after || k.posting.until != passed
	if before != after {
		if err := k.store(ctx, before, after, counted); err != nil {
			return false, err
		}
	}
	return more, k.writePostings(ctx)
}

// count reads, without a lock, in one state of the file: the rows, and what is
// stored of the slots that they fall into. It takes a run of the writer's for the
// rows of traces that come next, where there is one.
func (k *statsKeeper) count(ctx context.Context, now time.Time) (before, after progress, counted tallies, err error) {
	// Before the state begins: so all rows of the run are in it.
	if before, err = statsProgress(ctx, k.db); err != nil {
		return before, after, nil, err
	}
	cursor := before.traces
	fed, bound := k.feed.next(cursor)
	tx, err := k.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return before, after, nil, err
	}
	defer func() { err = errors.Join(err, endRead(tx)) }()
	if before, err = statsProgress(ctx, tx); err != nil {
		return before, after, nil, err
	}
	after = before
	if k.swept != before.swept {
		clear(k.series)
		k.swept = before.swept
	}
	if behind, err := k.posting.catchUp(ctx, tx, before.traces); behind || err != nil {
		return before, after, nil, err
	}
	switch {
	case before.traces != cursor: // by another process
		return before, before, nil, nil
	case fed != nil && fed.erased == k.posting.erased:
		counted, after.traces = fed.counted, fed.until
		k.posting.merge(&fed.posting)
	default:
		counted = tallies{}
		until, err := endOfRows(ctx, tx, "traces", before.traces, statsRows)
		if err != nil {
			return before, after, nil, err
		}
		if after.traces, err = counted.countTraces(ctx, tx, before.traces, min(until, bound), statsSlots, clauses{}, &k.posting); err != nil {
			return before, after, nil, err
		}
	}
	if err := counted.countLate(ctx, tx, before.traces, after.traces, before.metrics, clauses{}); err != nil {
		return before, after, nil, err
	}
	until, err := endOfRows(ctx, tx, "metrics", before.metrics, statsRows)
	if err != nil {
		return before, after, nil, err
	}
	if until, err = endOfSettled(ctx, tx, before.metrics, until, now); err != nil {
		return before, after, nil, err
	}
	if after.metrics, err = counted.countMetrics(ctx, tx, before.metrics, until, after.traces, 2*statsSlots, clauses{}); err != nil {
		return before, after, nil, err
	}
	return before, after, counted, k.addStored(ctx, tx, counted)
}

// endOfRows is the seq of the last of the next count rows.
func endOfRows(ctx context.Context, on queryer, table string, from int64, count int) (int64, error) {
	return queryInt(ctx, on, fmt.Sprintf(`
SELECT coalesce((SELECT seq FROM %[1]s WHERE seq > ?1 ORDER BY seq LIMIT 1 OFFSET ?2), (SELECT max(seq) FROM %[1]s WHERE seq > ?1), ?1)`, table),
		from, count-1)
}

// endOfSettled is the seq before that of the first metrics that are too young to
// be counted. Those of the future had another clock, and are not waited for.
func endOfSettled(ctx context.Context, on queryer, from, until int64, now time.Time) (int64, error) {
	return queryInt(ctx, on, `
SELECT coalesce((
	SELECT seq - 1 FROM metrics WHERE seq > ?1 AND seq <= ?2 AND time_ms > ?3 AND time_ms <= ?4 ORDER BY seq LIMIT 1
), ?2)`, from, until, now.Add(-settled).UnixMilli(), now.Add(settled).UnixMilli())
}

// addStored adds to the hours that were counted the days that they are of, and
// to both what is stored of them.
func (k *statsKeeper) addStored(ctx context.Context, tx *sql.Tx, counted tallies) error {
	days := tallies{}
	for at, hour := range counted {
		at.hours, at.start = 24, at.start-at.start%24
		if days[at] == nil {
			days[at] = new(tally)
		}
		days[at].merge(hour)
	}
	for at, day := range days {
		counted[at] = day
	}
	stored := tx.StmtContext(ctx, k.stored)
	for at, t := range counted {
		id, known := k.series[at.series]
		if !known {
			err := tx.QueryRowContext(ctx, "SELECT id FROM stats_series WHERE workspace = ? AND kind = ? AND key = ? AND variant = ? AND version = ? AND arm = ?",
				at.workspace, at.kind, at.key, at.variant, at.version, at.arm).Scan(&id)
			if errors.Is(err, sql.ErrNoRows) {
				continue // so nothing is stored either
			}
			if err != nil {
				return err
			}
			k.series[at.series] = id
		}
		before, err := scanStored(ctx, stored, id, at)
		if err != nil {
			return err
		}
		if before != nil {
			t.merge(before)
		}
	}
	return nil
}

// scanStored reads a slot of a series, nil where nothing is stored.
func scanStored(ctx context.Context, stored *sql.Stmt, id int64, at slot) (_ *tally, err error) {
	rows, err := stored.QueryContext(ctx, id, at.hours, at.start)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if !rows.Next() {
		return nil, rows.Err()
	}
	t := new(tally)
	return t, t.scan(rows.Scan)
}

// store moves the cursor and writes what was counted, unless the cursor was
// moved meanwhile.
func (k *statsKeeper) store(ctx context.Context, before, after progress, counted tallies) (err error) {
	k.turn.Lock()
	defer k.turn.Unlock()
	tx, err := k.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	fresh := map[series]int64{}
	defer func() {
		if rollback := tx.Rollback(); !errors.Is(rollback, sql.ErrTxDone) {
			err = errors.Join(err, rollback)
			for s := range fresh {
				delete(k.series, s)
			}
		}
	}()
	result, err := tx.ExecContext(ctx, "UPDATE cursors SET traces = ?, metrics = ? WHERE sink = ? AND traces = ? AND metrics = ? AND versions = ?",
		after.traces, after.metrics, statsCursor, before.traces, before.metrics, before.swept)
	if err != nil {
		return err
	}
	if moved, err := result.RowsAffected(); err != nil || moved == 0 {
		return err // another process has counted these, or deleted series
	}
	update := tx.StmtContext(ctx, k.update)
	for at, t := range counted {
		id, known := k.series[at.series]
		if !known {
			err := tx.QueryRowContext(ctx, `INSERT INTO stats_series (workspace, kind, key, variant, version, arm) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET variant = variant RETURNING id`, at.workspace, at.kind, at.key, at.variant, at.version, at.arm).Scan(&id)
			if err != nil {
				return err
			}
			k.series[at.series], fresh[at.series] = id, id
		}
		if _, err := update.ExecContext(ctx, append([]any{id, at.hours, at.start}, t.columns()...)...); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	k.posting.until = after.traces
	return nil
}

// expire deletes the statistics of the hours beyond the retention. It does not
// trust the clock alone: it keeps those of the time from the oldest trace on.
func (k *statsKeeper) expire(ctx context.Context, now time.Time, retention time.Duration) error {
	if retention <= 0 {
		return nil
	}
	cutoff := now.Add(-retention)
	var raw []byte
	err := k.db.QueryRowContext(ctx, "SELECT id FROM traces ORDER BY id LIMIT 1").Scan(&raw)
	switch {
	case err == nil:
		var oldest trace.ID
		copy(oldest[:], raw)
		if at := oldest.Time(); at.Before(cutoff) {
			cutoff = at
		}
	case !errors.Is(err, sql.ErrNoRows):
		return err
	}
	return k.deleteStats(ctx, cutoff)
}

// deleteStats deletes the statistics of the hours, and of the days, that were
// over at cutoff, in transactions of one series each, and the series that then have
// none: each version of a definition has series of its own.
func (k *statsKeeper) deleteStats(ctx context.Context, cutoff time.Time) error {
	hours := cutoff.UnixMilli() / hourMillis
	if hours == k.expired {
		return nil
	}
	ids, err := collect(ctx, k.db, func(scan func(...any) error) (id int64, err error) { return id, scan(&id) }, "SELECT id FROM stats_series")
	if err != nil {
		return err
	}
	for _, id := range ids {
		for _, length := range []int64{1, 24} {
			if err := k.deleteSlots(ctx, id, length, hours-length+1); err != nil {
				return err
			}
		}
	}
	if err := k.deleteSeries(ctx); err != nil {
		return err
	}
	k.expired = hours
	return nil
}

// deleteSeries deletes the series that have no statistics.
func (k *statsKeeper) deleteSeries(ctx context.Context) (err error) {
	const empty = "stats_series WHERE NOT EXISTS (SELECT 1 FROM stats WHERE series = stats_series.id)"
	some, err := queryInt(ctx, k.db, "SELECT EXISTS (SELECT 1 FROM "+empty+")")
	if err != nil || some == 0 {
		return err // without a lock
	}
	k.turn.Lock()
	defer k.turn.Unlock()
	tx, err := k.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE cursors SET versions = versions + 1 WHERE sink = ?", statsCursor); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM "+empty); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// deleteSlots deletes the slots of a series that began before start.
func (k *statsKeeper) deleteSlots(ctx context.Context, id, hours, start int64) error {
	const old = "stats WHERE series = ? AND hours = ? AND start < ?"
	some, err := queryInt(ctx, k.db, "SELECT EXISTS (SELECT 1 FROM "+old+")", id, hours, start)
	if err != nil || some == 0 {
		return err // without a lock
	}
	return k.execute(ctx, "DELETE FROM "+old, id, hours, start)
}

// execute runs a statement that writes.
func (k *statsKeeper) execute(ctx context.Context, query string, args ...any) error {
	k.turn.Lock()
	defer k.turn.Unlock()
	_, err := k.db.ExecContext(ctx, query, args...)
	return err
}
