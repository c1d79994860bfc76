package sqlite

import (
	"context"
	"database/sql"
	"time"
)

const (
	// checkpointEvery is how often the log is synced and copied into the database. A power
	// cut loses at most the unsynced commits of this time.
	checkpointEvery = time.Second

	// longLog is the length of the log, in pages of 4 KiB, at which it is restarted.
	longLog = 4000

	// backstopPages is the length at which the writer copies the log itself. The log
	// reaches it only if the checkpoints of the background do not complete.
	backstopPages = 16000
)

// checkpoint copies the pages of the log that no reader needs into the database, and syncs
// both. It blocks neither readers nor the writer. It returns the length of the log, and of
// the part that was not copied, in pages.
// https://www.sqlite.org/pragma.html#pragma_wal_checkpoint
func checkpoint(ctx context.Context, db queryer) (length, uncopied int, err error) {
	var busy, copied int
	err = db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &length, &copied)
	return length, length - copied, err
}

// checkpointUntil runs the checkpoints on a connection of their own. In a commit, where
// SQLite would run them, every answer and start record after it would wait.
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
		length, uncopied, err := checkpoint(ctx, db)
		switch {
		case isCorrupt(err): // the connection noted it
		case err != nil && ctx.Err() == nil:
			s.written.Store(true)
			if !failing { // a full disk fails at each turn
				failing = true
				s.config.Logger.Error("the log of the trace store can't be copied into its database, and grows; trying again", "error", err)
			}
		case uncopied > 0 && length > longLog:
			// SQLite restarts the log only when all of it is copied. Under load only the
			// writer can reach that, between two commits.
			s.finishLog.Store(true)
		}
		if err == nil && failing {
			failing = false
			s.config.Logger.Info("the log of the trace store is copied into its database again")
		}
	}
}

// finishCheckpoint copies, between two commits, the few pages that a checkpoint left, so
// that the next commit restarts the log.
func (s *Store) finishCheckpoint(ctx context.Context) error {
	if !s.finishLog.Swap(false) {
		return nil
	}
	_, _, err := checkpoint(ctx, s.conn)
	return err
}
