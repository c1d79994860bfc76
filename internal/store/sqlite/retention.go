package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// One step of maintenance looks at scanRows and deletes deleteRows of each table, and
	// returns vacuumPages to the file system: a few milliseconds' work.
	scanRows    = 2000
	deleteRows  = 500
	vacuumPages = 256

	// erasureLifetime is how long the store keeps erasures. A sink's database that
	// is restored from an older copy needs them again.
	erasureLifetime = 30 * 24 * time.Hour
)

// Maintain implements [recorder.Store]: it deletes rows older than the retention, expired
// replies, and the oldest rows while the file is too large. Then it returns free pages to
// the file system.
func (s *Store) Maintain(ctx context.Context, now time.Time) (more bool, err error) {
	if err := s.usable(); err != nil {
		return false, err
	}
	newest, err := s.newest(ctx)
	if err != nil {
		return false, classify(err)
	}
	if err := setDurable(s.maintains(ctx), &s.durable, false); err != nil {
		return false, classify(err)
	}
	if s.clock.trust(now, now.Sub(s.opened), newest) {
		if more, err = s.deleteOld(ctx, now); more || err != nil {
			return more, classify(err)
		}
	}
	if s.unswept > 0 {
		if err := s.shared.transact(s.writer.repeat, s.sweep); err != nil {
			return false, classify(err)
		}
	}
	if more, err = s.shrinkReplies(ctx); more || err != nil {
		return more, classify(err)
	}
	if more, err = s.shrink(ctx); more || err != nil {
		return more, classify(err)
	}
	s.loss.report(s.config.Logger)
	more, err = s.vacuum(ctx)
	return more, classify(err)
}

const deleteRepliesSQL = "DELETE FROM replies WHERE seq IN (SELECT seq FROM replies WHERE time_ms <= ? ORDER BY time_ms LIMIT ?)"

// deleteOld deletes some of the rows that are too old, and reports whether there are more.
func (s *Store) deleteOld(ctx context.Context, now time.Time) (more bool, err error) {
	err = s.shared.transact(s.maintains(ctx), func() error {
		result, err := s.conn.ExecContext(ctx, deleteRepliesSQL, now.Add(-trace.ReplyLifetime).UnixMilli(), deleteRows)
		if err != nil {
			return err
		}
		replies, err := result.RowsAffected()
		if err != nil {
			return err
		}
		more = replies == deleteRows
		sinks, err := readSinks(ctx, s.conn, s.config.Sinks())
		if err != nil {
			return err
		}
		if err := forgetErasures(ctx, s.conn, now.Add(-erasureLifetime), sinks); err != nil {
			return err
		}
		if err := deleteAudit(ctx, s.conn, now); err != nil {
			return err
		}
		retention := s.config.CurrentRetention()
		if retention <= 0 {
			return nil
		}
		if result, err = s.conn.ExecContext(ctx, deleteRevisionsSQL, now.Add(-retention).UnixMilli()); err != nil {
			return err
		}
		revisions, err := result.RowsAffected()
		if err != nil {
			return err
		}
		s.unswept += revisions
		for _, query := range []string{deleteRefusalsSQL, deletePeaksSQL} {
			if _, err := s.conn.ExecContext(ctx, query, now.Add(-retention-time.Hour).Unix()); err != nil {
				return err
			}
		}
		// An id begins with its time, so the index on ids is one on times.
		cutoff := trace.FirstID(now.Add(-retention))
		for _, table := range []*table{tracesTable, metricsTable} {
			others, err := s.deleteDelivered(ctx, table, cutoff, sinks)
			if err != nil {
				return err
			}
			more = more || others
		}
		return nil
	})
	return more, err
}

// table is a table whose rows are deleted by the time in their trace ids.
type table struct {
	name, id string // id is the column of trace ids
	metadata string // the expression of its metadata
	position func(trace.Position) int64
}

var (
	tracesTable  = &table{"traces", "id", shownMetadata, func(p trace.Position) int64 { return p.Traces }}
	metricsTable = &table{"metrics", "trace_id", "metadata", func(p trace.Position) int64 { return p.Metrics }}
)

// row is a row that may be deleted.
type row struct {
	seq       int64
	id        trace.ID
	workspace string
}

func scanRow(scan func(...any) error) (r row, err error) {
	var id []byte
	err = scan(&r.seq, &id, &r.workspace)
	copy(r.id[:], id)
	return r, err
}

// deleteDelivered deletes some of the rows before cutoff that every sink of their workspace
// has, and reports whether there may be more. A maintenance looks only once at a row that
// it spares.
func (s *Store) deleteDelivered(ctx context.Context, t *table, cutoff trace.ID, sinks []activeSink) (more bool, err error) {
	last := s.spared[t]
	old, err := collect(ctx, s.conn, scanRow, fmt.Sprintf(
		"SELECT seq, %[1]s, workspace FROM %[2]s WHERE (%[1]s, seq) > (?, ?) AND %[1]s < ? ORDER BY %[1]s, seq LIMIT ?", t.id, t.name),
		last.id[:], last.seq, cutoff[:], scanRows)
	if err != nil {
		return false, err
	}
	more = len(old) == scanRows
	var delivered []int64
	for _, r := range old {
		if len(delivered) == deleteRows {
			more = true
			break
		}
		last = r
		if !slices.ContainsFunc(sinks, func(sink activeSink) bool { return sink.awaits(t, r) }) {
			delivered = append(delivered, r.seq)
		}
	}
	if s.spared == nil {
		s.spared = make(map[*table]row)
	}
	if !more {
		last = row{}
	}
	s.spared[t] = last
	return more, s.deleteRows(ctx, t, delivered)
}

func (s *Store) deleteRows(ctx context.Context, t *table, seqs []int64) error {
	if len(seqs) == 0 {
		return nil
	}
	list, err := json.Marshal(seqs)
	if err != nil {
		return err
	}
	_, err = s.conn.ExecContext(ctx, "DELETE FROM "+t.name+" WHERE seq IN (SELECT value FROM json_each(?))", string(list))
	return err
}

// newest returns the time of the newest trace, zero if there is none.
func (s *Store) newest(ctx context.Context) (time.Time, error) {
	ids, err := collect(ctx, s.conn, scanID, "SELECT id FROM traces ORDER BY id DESC LIMIT 1")
	if err != nil || len(ids) == 0 {
		return time.Time{}, err
	}
	return ids[0].Time(), nil
}

// vacuum returns some of the free pages to the file system if they are many.
func (s *Store) vacuum(ctx context.Context) (more bool, err error) {
	free, err := queryInt(ctx, s.conn, "PRAGMA freelist_count")
	if err != nil || free < 2*vacuumPages {
		return false, err
	}
	return free > 3*vacuumPages, incrementalVacuum(ctx, s.conn)
}

// incrementalVacuum returns some free pages to the file system.
// https://www.sqlite.org/pragma.html#pragma_incremental_vacuum
func incrementalVacuum(ctx context.Context, db querier) error {
	rows, err := db.QueryContext(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", vacuumPages))
	if err != nil {
		return err
	}
	for rows.Next() { // each step frees a page
	}
	return errors.Join(rows.Err(), rows.Close())
}

const (
	// suspiciousJump is the least jump of the clock, against the uptime or from the newest
	// trace, that may be a wrong clock.
	suspiciousJump = 24 * time.Hour
	// jumpConfirmation is how long such a clock must go on until it is trusted.
	jumpConfirmation = 10 * time.Minute
)

// clockGuard keeps a clock that jumped ahead, such as a machine's that starts with a wrong
// time, from deleting everything.
type clockGuard struct {
	began      bool
	lastWall   time.Time
	lastUptime time.Duration
	doubted    bool
	doubtedAt  time.Duration // uptime
}

// trust reports whether to delete by the wall clock's time. uptime is the time that has
// passed by a monotonic clock, newest the time of the newest trace.
func (g *clockGuard) trust(wall time.Time, uptime time.Duration, newest time.Time) bool {
	wall = wall.Round(0) // or Sub would use the monotonic reading
	var jump time.Duration
	switch {
	case g.began:
		jump = wall.Sub(g.lastWall) - (uptime - g.lastUptime)
	case !newest.IsZero():
		jump = wall.Sub(newest)
	}
	g.began, g.lastWall, g.lastUptime = true, wall, uptime
	switch {
	case jump > suspiciousJump:
		g.doubted, g.doubtedAt = true, uptime
	case g.doubted && uptime-g.doubtedAt >= jumpConfirmation:
		g.doubted = false
	}
	return !g.doubted
}
