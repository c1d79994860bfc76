package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// What one step of maintenance looks at and deletes, in rows of each table,
	// and gives back to the file system, in pages: a few milliseconds' work.
	scanRows    = 2000
	deleteRows  = 500
	vacuumPages = 256

	// erasureLifetime is how long the store keeps erasures. A sink's database that
	// is restored from an older copy needs them again.
	erasureLifetime = 30 * 24 * time.Hour
)

// Maintain implements [recorder.Store]: it deletes what is older than the
// retention, the replies that have expired and, oldest first, what the file is
// too large for, and gives the space back.
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
		if err := s.transact(s.writer.repeat, s.sweep); err != nil {
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

// deleteOld deletes some of what is beyond its age, and reports whether there is
// more.
func (s *Store) deleteOld(ctx context.Context, now time.Time) (more bool, err error) {
	err = s.transact(s.maintains(ctx), func() error {
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
		if _, err := s.conn.ExecContext(ctx, deleteRefusalsSQL, now.Add(-retention-time.Hour).Unix()); err != nil {
			return err
		}
		// An id begins with its time, so the index on ids is one on times.
		cutoff := trace.FirstID(now.Add(-retention))
		for _, table := range []*table{tracesTable, metricsTable} {
			rest, err := s.deleteDelivered(ctx, table, cutoff, sinks)
			if err != nil {
				return err
			}
			more = more || rest
		}
		return nil
	})
	return more, err
}

// table is one that is deleted from by the time in its trace ids.
type table struct {
	name, id string // id is the column of trace ids
	metadata string // its expression
	position func(trace.Position) int64
}

var (
	tracesTable  = &table{"traces", "id", shownMetadata, func(p trace.Position) int64 { return p.Traces }}
	metricsTable = &table{"metrics", "trace_id", "metadata", func(p trace.Position) int64 { return p.Metrics }}
)

// row is one that may be deleted.
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

// deleteDelivered deletes some of the rows before cutoff that every sink of their
// workspace has, and reports whether there may be more. It skips a row that it
// spared for the rest of this maintenance.
func (s *Store) deleteDelivered(ctx context.Context, t *table, cutoff trace.ID, sinks []activeSink) (more bool, err error) {
	from := s.spared[t]
	old, err := collect(ctx, s.conn, scanRow, fmt.Sprintf(
		"SELECT seq, %[1]s, workspace FROM %[2]s WHERE (%[1]s, seq) > (?, ?) AND %[1]s < ? ORDER BY %[1]s, seq LIMIT ?", t.id, t.name),
		from.id[:], from.seq, cutoff[:], scanRows)
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
		from = r
		if !slices.ContainsFunc(sinks, func(sink activeSink) bool { return sink.awaits(t, r) }) {
			delivered = append(delivered, r.seq)
		}
	}
	if s.spared == nil {
		s.spared = make(map[*table]row)
	}
	if !more {
		from = row{}
	}
	s.spared[t] = from
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

// newest is the time of the newest trace, zero when there is none.
func (s *Store) newest(ctx context.Context) (time.Time, error) {
	var raw []byte
	err := s.conn.QueryRowContext(ctx, "SELECT id FROM traces ORDER BY id DESC LIMIT 1").Scan(&raw)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	if err != nil || len(raw) != len(trace.ID{}) {
		return time.Time{}, err
	}
	return trace.ID(raw).Time(), nil
}

// vacuum gives some of the free pages back once they are worth it.
func (s *Store) vacuum(ctx context.Context) (more bool, err error) {
	free, err := queryInt(ctx, s.conn, "PRAGMA freelist_count")
	if err != nil || free < 2*vacuumPages {
		return false, err
	}
	return free > 3*vacuumPages, incrementalVacuum(ctx, s.conn)
}

// incrementalVacuum gives some free pages back to the file system.
func incrementalVacuum(ctx context.Context, on querier) error {
	rows, err := on.QueryContext(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", vacuumPages))
	if err != nil {
		return err
	}
	for rows.Next() { // each step frees a page
	}
	return errors.Join(rows.Err(), rows.Close())
}

const (
	// A step of the clock beyond what has passed, or a gap since the newest
	// trace, that may be a wrong clock.
	suspiciousJump = 24 * time.Hour
	// How long such a clock must go on to be believed.
	jumpConfirmation = 10 * time.Minute
)

// clockGuard keeps a clock that jumped ahead, as on a machine that starts with
// a wrong one, from deleting everything.
type clockGuard struct {
	began      bool
	lastWall   time.Time
	lastUptime time.Duration
	doubted    bool
	doubtedAt  time.Duration // uptime
}

// trust reports whether to delete by the wall clock's time. uptime is what a
// monotonic clock says has passed, newest the time of the newest trace.
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
