package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// What one step of maintenance deletes, in rows of each table, and gives
	// back to the file system, in pages: a few milliseconds' work.
	deleteRows  = 500
	vacuumPages = 256
)

// Maintain implements [trace.Store]: it deletes what is older than the
// retention and the replies that have expired, oldest first, and gives the
// space back.
func (s *Store) Maintain(ctx context.Context, now time.Time) (more bool, err error) {
	if err := s.usable(); err != nil {
		return false, err
	}
	newest, err := s.newest(ctx)
	if err != nil {
		return false, s.note(err)
	}
	if !s.clock.trust(now, now.Sub(s.opened), newest) {
		return false, nil
	}
	if err := s.setDurable(ctx, false); err != nil {
		return false, s.note(err)
	}
	err = s.transact(ctx, func() (err error) {
		more, err = s.deleteOld(ctx, now)
		return err
	})
	if more || err != nil {
		return more, s.note(err)
	}
	more, err = s.vacuum(ctx)
	return more, s.note(err)
}

// deleteOld deletes some of each table, and tells whether there is more.
func (s *Store) deleteOld(ctx context.Context, now time.Time) (more bool, err error) {
	remove := func(stmt *sql.Stmt, cutoff any) error {
		result, err := stmt.ExecContext(ctx, cutoff, deleteRows)
		if err != nil {
			return err
		}
		deleted, err := result.RowsAffected()
		more = more || deleted == deleteRows
		return err
	}
	if err := remove(s.insert.deleteReplies, now.Add(-trace.ReplyLifetime).UnixMilli()); err != nil {
		return false, err
	}
	retention := s.config.CurrentRetention()
	if retention <= 0 {
		return more, nil
	}
	// An id begins with its time, so the index on ids is one on times.
	cutoff := trace.FirstID(now.Add(-retention))
	if err := remove(s.insert.deleteTraces, cutoff[:]); err != nil {
		return false, err
	}
	return more, remove(s.insert.deleteMetrics, cutoff[:])
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
	rows, err := s.conn.QueryContext(ctx, "PRAGMA incremental_vacuum(256)")
	if err != nil {
		return false, err
	}
	for rows.Next() { // each step frees a page
	}
	return free > 3*vacuumPages, errors.Join(rows.Err(), rows.Close())
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

// trust tells whether to delete by the wall clock's time. uptime is what a
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
