package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

const (
	// The keeper looks for rows to count every statsLook. A step costs as much for few rows
	// as for many in the same slots, so fewer than worthSlot for each slot of the last step
	// wait for statsEvery. But worthCounting are not too few, and leastCounting are: answers
	// read the waiting rows themselves, and a step holds a small machine's only processor.
	statsLook     = time.Second
	statsEvery    = 10 * time.Second
	worthCounting = 4096
	leastCounting = 512
	worthSlot     = 16

	// A step counts at most statsRows, which bounds its time, and fills at most statsSlots,
	// which bounds how long the recorder's writer waits for it: some 10 ms. With fewer
	// slots than keys a step ends after a few rows, and writes more than it counts. The
	// writer has its turn during statsPause, between two steps.
	statsRows  = 16384
	statsSlots = 1024
	statsPause = 10 * time.Millisecond

	// statsBusyMillis bounds how long a step waits for its turn to write. It is short
	// because the keeper looks again, and because closing the store waits for the step.
	statsBusyMillis = 250

	// settled is the least age of metrics that are counted. They may be stored
	// before their trace, under which they count.
	settled = 2 * time.Second

	// statsExpireEvery is how often statistics beyond the retention are deleted.
	statsExpireEvery = time.Minute
)

// statsCursor is the name of the statistics' row in cursors. Names of sinks have a slash.
const statsCursor = "stats"

// keepStats counts in the background, on a connection of its own. The transaction that adds
// the counts also moves the cursor, so each row counts once, even after a crash and with
// several processes on the file.
func (s *Store) keepStats(ctx context.Context) {
	s.keep(ctx, statsLook, "traces are not counted for the statistics", func() (func() error, func(), error) {
		k, err := openStatsKeeper(ctx, s.path)
		return func() error { return k.look(ctx, s) }, k.close, err
	})
}

// keep looks every so often until ctx ends, with what open returns: a function that looks, or
// nil if there is nothing to look at, and one that closes. After a failure it opens again.
// failing says what is not done meanwhile.
func (s *Store) keep(ctx context.Context, every time.Duration, failing string, open func() (look func() error, closes func(), err error)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var look func() error
	closes := func() {}
	defer func() { closes() }()
	for told := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		var err error
		if look == nil {
			if look, closes, err = open(); err != nil {
				look = nil
			}
		}
		if err == nil && look != nil {
			err = look()
		}
		switch {
		case ctx.Err() != nil:
			return
		case isCorrupt(err):
			return // the next store counts on
		case err != nil && !isBusy(err) && !errors.Is(err, errOvertaken):
			if !told {
				told = true
				s.config.Logger.Error(failing+"; trying again", "error", err)
			}
			closes()
			look, closes = nil, func() {}
		case err == nil:
			told = false
		}
	}
}

// statsKeeper is the connection that counts.
type statsKeeper struct {
	db             *sql.DB // of one connection
	turn           *sync.Mutex
	stored, update *sql.Stmt
	series         map[series]int64 // to ids, valid while swept is the cursor's
	swept          int64            // progress.swept
	slots          int64            // that the last step filled
	expired        int64            // the hour before which there are no statistics
	countAt        time.Time        // when few rows are counted too
	foldAt         time.Time        // when the counts of commits are added
	expireAt       time.Time
}

func openStatsKeeper(ctx context.Context, path string) (_ *statsKeeper, err error) {
	k := &statsKeeper{turn: turnOf(path), series: map[series]int64{}}
	defer func() {
		if err != nil {
			k.close()
		}
	}()
	// The connection does not sync: a power cut that loses statistics also loses the move
	// of the cursor.
	if k.db, err = openDatabase(secondWriterDSN(path, fmt.Sprintf("busy_timeout(%d)", statsBusyMillis)), 1); err != nil {
		return nil, err
	}
	if k.stored, err = k.db.PrepareContext(ctx, "SELECT "+readColumns+" FROM stats WHERE series = ? AND hours = ? AND start = ?"); err != nil {
		return nil, err
	}
	if k.update, err = k.db.PrepareContext(ctx, fmt.Sprintf(
		"INSERT OR REPLACE INTO stats (series, hours, start, %s) VALUES (?, ?, ?%s)", tallyColumns, strings.Repeat(", ?", len(new(tally).columns())))); err != nil {
		return nil, err
	}
	return k, nil
}

func (k *statsKeeper) close() {
	if k == nil {
		return
	}
	for _, stmt := range []*sql.Stmt{k.stored, k.update} {
		if stmt != nil {
			_ = stmt.Close()
		}
	}
	if k.db != nil {
		_ = k.db.Close() // rows that were not committed are counted again
	}
}

// look counts rows and deletes old statistics, if it is time for either.
func (k *statsKeeper) look(ctx context.Context, s *Store) error {
	now := time.Now()
	if !now.Before(k.expireAt) {
		if err := k.expire(ctx, now, s.config.CurrentRetention()); err != nil {
			return err
		}
		if err := k.expireMinutes(ctx, now); err != nil {
			return err
		}
		if err := k.dropTerms(ctx); err != nil {
			return err
		}
		k.expireAt = now.Add(statsExpireEvery)
	}
	if !now.Before(k.foldAt) {
		if err := k.fold(ctx, s); err != nil {
			return err
		}
		k.foldAt = now.Add(statsEvery)
	}
	for {
		waiting, err := k.waiting(ctx)
		worth := min(max(worthSlot*k.slots, leastCounting), worthCounting)
		if err != nil || waiting == 0 || waiting < worth && now.Before(k.countAt) {
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

// waiting returns about how many rows have not been counted.
func (k *statsKeeper) waiting(ctx context.Context) (int64, error) {
	return queryInt(ctx, k.db, `
SELECT (SELECT coalesce(max(seq), 0) FROM traces) - traces + (SELECT coalesce(max(seq), 0) FROM metrics) - metrics
FROM cursors WHERE sink = ?`, statsCursor)
}

// isBusy reports whether err says that another connection holds the file's lock.
func isBusy(err error) bool { return resultCode(err) == sqlite3.SQLITE_BUSY }

// progress is the seq of each table up to which rows are counted. swept is the number of
// deletions of series, whose ids later series may reuse, and folded that of additions of
// answers; the cursor has them in the columns versions and erasures.
type progress struct{ traces, metrics, swept, folded int64 }

func statsProgress(ctx context.Context, db queryer) (p progress, err error) {
	err = db.QueryRowContext(ctx, "SELECT traces, metrics, versions, erasures FROM cursors WHERE sink = ?", statsCursor).
		Scan(&p.traces, &p.metrics, &p.swept, &p.folded)
	return p, err
}

// move moves the cursor, unless another process has counted meanwhile, or deleted series.
func (p progress) move(ctx context.Context, tx *sql.Tx, to progress) (moved bool, err error) {
	result, err := tx.ExecContext(ctx, "UPDATE cursors SET traces = ?, metrics = ?, erasures = ? WHERE sink = ? AND traces = ? AND metrics = ? AND versions = ? AND erasures = ?",
		to.traces, to.metrics, to.folded, statsCursor, p.traces, p.metrics, p.swept, p.folded)
	if err != nil {
		return false, err
	}
	rows, err := result.RowsAffected()
	return rows > 0, err
}

// step counts some of the rows after the cursor, and reports whether it found any.
func (k *statsKeeper) step(ctx context.Context, now time.Time) (more bool, err error) {
	before, after, counted, err := k.count(ctx, now)
	if err != nil || before == after {
		return false, err
	}
	k.slots = int64(len(counted))
	return true, k.store(ctx, before, after, counted)
}

// count reads the rows, and the stored counts of the slots that they fall into, in one read
// transaction, without a lock.
func (k *statsKeeper) count(ctx context.Context, now time.Time) (before, after progress, counted tallies, err error) {
	tx, err := beginRead(ctx, k.db)
	if err != nil {
		return before, after, nil, err
	}
	defer func() { err = errors.Join(err, endRead(tx)) }()
	if before, err = statsProgress(ctx, tx); err != nil {
		return before, after, nil, err
	}
	after = before
	k.forgetSwept(before)
	counted = tallies{}
	until, err := endOfRows(ctx, tx, "traces", before.traces, statsRows)
	if err != nil {
		return before, after, nil, err
	}
	if after.traces, err = counted.countTraces(ctx, tx, before.traces, until, statsSlots, clauses{}); err != nil {
		return before, after, nil, err
	}
	if err := counted.countLate(ctx, tx, before.traces, after.traces, before.metrics, clauses{}); err != nil {
		return before, after, nil, err
	}
	until, err = endOfRows(ctx, tx, "metrics", before.metrics, statsRows)
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

// forgetSwept forgets the ids of series if any series was deleted.
func (k *statsKeeper) forgetSwept(at progress) {
	if k.swept != at.swept {
		clear(k.series)
		k.swept = at.swept
	}
}

// endOfRows returns the seq of the last of the next count rows.
func endOfRows(ctx context.Context, db queryer, table string, from int64, count int) (int64, error) {
	return queryInt(ctx, db, fmt.Sprintf(`
SELECT coalesce((SELECT seq FROM %[1]s WHERE seq > ?1 ORDER BY seq LIMIT 1 OFFSET ?2), (SELECT max(seq) FROM %[1]s WHERE seq > ?1), ?1)`, table),
		from, count-1)
}

// endOfSettled returns the seq before the first metrics that are too young to be counted.
// It does not wait for metrics with a time in the future: another clock set it.
func endOfSettled(ctx context.Context, db queryer, from, until int64, now time.Time) (int64, error) {
	return queryInt(ctx, db, `
SELECT coalesce((
	SELECT seq - 1 FROM metrics WHERE seq > ?1 AND seq <= ?2 AND time_ms > ?3 AND time_ms <= ?4 ORDER BY seq LIMIT 1
), ?2)`, from, until, now.Add(-settled).UnixMilli(), now.Add(settled).UnixMilli())
}

// addStored adds the days of the counted hours, and then to both their stored counts.
func (k *statsKeeper) addStored(ctx context.Context, tx *sql.Tx, counted tallies) error {
	days := tallies{}
	for key, hour := range counted {
		if key.hours == 0 {
			continue
		}
		key.hours, key.start = 24, key.start-key.start%24
		if days[key] == nil {
			days[key] = new(tally)
		}
		days[key].merge(hour)
	}
	for key, day := range days {
		counted[key] = day
	}
	stored := tx.StmtContext(ctx, k.stored)
	for key, t := range counted {
		id, known := k.series[key.series]
		if !known {
			err := tx.QueryRowContext(ctx, "SELECT id FROM stats_series WHERE workspace = ? AND kind = ? AND key = ? AND variant = ? AND version = ? AND arm = ?",
				key.workspace, key.kind, key.key, key.variant, key.version, key.arm).Scan(&id)
			if errors.Is(err, sql.ErrNoRows) {
				continue // nothing is stored
			}
			if err != nil {
				return err
			}
			k.series[key.series] = id
		}
		before, err := scanStored(ctx, stored, id, key)
		if err != nil {
			return err
		}
		if before != nil {
			t.merge(before)
		}
	}
	return nil
}

// scanStored reads a slot of a series, nil if it is not stored.
func scanStored(ctx context.Context, stored *sql.Stmt, id int64, key slot) (_ *tally, err error) {
	rows, err := stored.QueryContext(ctx, id, key.hours, key.start)
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

// store moves the cursor and writes the counts, unless another process moved the cursor
// meanwhile.
func (k *statsKeeper) store(ctx context.Context, before, after progress, counted tallies) error {
	fresh := map[series]int64{}
	err := k.transact(ctx, func(tx *sql.Tx) error {
		if moved, err := before.move(ctx, tx, after); err != nil || !moved {
			return err
		}
		return k.write(ctx, tx, counted, fresh)
	})
	if err == nil {
		maps.Copy(k.series, fresh)
	}
	return err
}

// write writes the slots, and adds the ids of new series to fresh.
func (k *statsKeeper) write(ctx context.Context, tx *sql.Tx, counted tallies, fresh map[series]int64) error {
	update := tx.StmtContext(ctx, k.update)
	for key, t := range counted {
		id, known := k.series[key.series]
		if !known {
			id, known = fresh[key.series]
		}
		if !known {
			err := tx.QueryRowContext(ctx, `INSERT INTO stats_series (workspace, kind, key, variant, version, arm) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET variant = variant RETURNING id`, key.workspace, key.kind, key.key, key.variant, key.version, key.arm).Scan(&id)
			if err != nil {
				return err
			}
			fresh[key.series] = id
		}
		if _, err := update.ExecContext(ctx, append([]any{id, key.hours, key.start}, t.columns()...)...); err != nil {
			return err
		}
	}
	return nil
}

// expire deletes the statistics older than the retention. It does not trust the clock
// alone: it keeps the statistics from the time of the oldest trace on.
func (k *statsKeeper) expire(ctx context.Context, now time.Time, retention time.Duration) error {
	if retention <= 0 {
		return nil
	}
	oldest, err := oldestTrace(ctx, k.db)
	if err != nil {
		return err
	}
	return k.deleteStats(ctx, min(now.Add(-retention).UnixMilli(), oldest.Time().UnixMilli())/hourMillis)
}

// deleteStats deletes the minutes, hours and days that were over at an hour, in transactions
// of one series each. Then it deletes the series without statistics: each version of a
// definition has series of its own.
func (k *statsKeeper) deleteStats(ctx context.Context, hours int64) error {
	if hours == k.expired {
		return nil
	}
	ids, err := collect(ctx, k.db, func(scan func(...any) error) (id int64, err error) { return id, scan(&id) }, "SELECT id FROM stats_series")
	if err != nil {
		return err
	}
	for _, id := range ids {
		for length, start := range map[int64]int64{0: hours * 60, 1: hours, 24: hours - 23} {
			if err := k.deleteSlots(ctx, id, length, start); err != nil {
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
func (k *statsKeeper) deleteSeries(ctx context.Context) error {
	const empty = "stats_series WHERE NOT EXISTS (SELECT 1 FROM stats WHERE series = stats_series.id)"
	exists, err := queryInt(ctx, k.db, "SELECT EXISTS (SELECT 1 FROM "+empty+")")
	if err != nil || exists == 0 {
		return err // without a lock
	}
	return k.transact(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE cursors SET versions = versions + 1 WHERE sink = ?; DELETE FROM "+empty, statsCursor)
		return err
	})
}

// deleteSlots deletes the slots of a series that began before start.
func (k *statsKeeper) deleteSlots(ctx context.Context, id, hours, start int64) error {
	const old = "stats WHERE series = ? AND hours = ? AND start < ?"
	exists, err := queryInt(ctx, k.db, "SELECT EXISTS (SELECT 1 FROM "+old+")", id, hours, start)
	if err != nil || exists == 0 {
		return err // without a lock
	}
	return k.transact(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM "+old, id, hours, start)
		return err
	})
}

// dropTerms drops the tables of terms of the first periods if their traces are all gone.
func (k *statsKeeper) dropTerms(ctx context.Context) error {
	periods, err := readPeriods(ctx, k.db)
	if err != nil {
		return err
	}
	for _, period := range periods {
		if exists, err := hasTraces(ctx, k.db, period); exists || err != nil {
			return err // without a lock
		}
		if err := k.dropPeriod(ctx, period); err != nil {
			return err
		}
	}
	return nil
}

func hasTraces(ctx context.Context, db queryer, period int64) (bool, error) {
	first, next := firstOf(period<<periodBits), firstOf((period+1)<<periodBits)
	exists, err := queryInt(ctx, db, "SELECT EXISTS (SELECT 1 FROM traces WHERE id >= ? AND id < ?)", first[:], next[:])
	return exists > 0, err
}

// dropPeriod drops a table, unless a trace of its period was stored meanwhile.
func (k *statsKeeper) dropPeriod(ctx context.Context, period int64) error {
	return k.transact(ctx, func(tx *sql.Tx) error {
		exists, err := hasTraces(ctx, tx, period)
		if err == nil && !exists {
			_, err = tx.ExecContext(ctx, "DROP TABLE "+termsTable(period))
		}
		return err
	})
}

func (k *statsKeeper) transact(ctx context.Context, work func(*sql.Tx) error) error {
	return transactInTurn(ctx, k.db, k.turn, work)
}
