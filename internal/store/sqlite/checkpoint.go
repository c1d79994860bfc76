package sqlite

import (
	"context"
	"database/sql"
	"time"
)

const (
	// checkpointEvery is how often the log is synced and its content copied into
	// the database, and so how much a power cut can take of what was committed
	// without a sync.
	checkpointEvery = time.Second

	// longLog is the length of the log, in pages of 4 KiB, at which it is restarted.
	longLog = 4000

	// backstopPages is the length at which the writer copies the log itself: a log
	// of this length shows that the checkpoints of the background do not get
	// through.
	backstopPages = 16000
)

// checkpoint copies those pages of the log into the database that no reader needs,
// and syncs both. It blocks neither readers nor the writer. It returns the length
// of the log, and how much of it was not copied, in pages.
// https://www.sqlite.org/pragma.html#pragma_wal_checkpoint
func checkpoint(ctx context.Context, on queryer) (length, rest int, err error) {
	var busy, copied int
	err = on.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &length, &copied)
	return length, length - copied, err
}

// checkpointUntil runs the checkpoints on a connection of their own: in a commit,
// where SQLite would run them, every answer and start record behind it waits.
func (s *Store) checkpointUntil(ctx context.Context, db *sql.DB) {
	ticker := time.NewTicker(checkpointEvery)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !s.written.Swap(false) {
			continue
		}
		length, rest, err := checkpoint(ctx, db)
		switch {
		case isCorrupt(err): // which is known
		case err != nil && ctx.Err() == nil:
			s.written.Store(true)
			if !failing { // a full disk fails at each turn
				failing = true
				s.config.Logger.Error("the log of the trace store can't be copied into its database, and grows; trying again", "error", err)
			}
		case rest > 0 && length > longLog:
			// SQLite restarts the log only when all of it is copied. Under load
			// that moment comes only if the writer makes it.
			s.finishLog.Store(true)
		}
		if err == nil && failing {
			failing = false
			s.config.Logger.Info("the log of the trace store is copied into its database again")
		}
	}
}

// copyRestOfLog copies, between two commits, the little that a checkpoint left, so
// that the next commit restarts the log.
func (s *Store) copyRestOfLog(ctx context.Context) error {
	if !s.finishLog.Swap(false) {
		return nil
	}
	_, _, err := checkpoint(ctx, s.conn)
	return err
}
