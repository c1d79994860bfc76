package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
)

// traceKeyLength is the length of a key that the store makes, in bytes.
const traceKeyLength = 32

// TraceKey implements [recorder.Store]. Processes that share a file get the same key.
func (s *Store) TraceKey(ctx context.Context) ([]byte, error) {
	key, err := storedTraceKey(ctx, s.conn)
	if !errors.Is(err, sql.ErrNoRows) {
		return key, classify(err)
	}
	fresh := make([]byte, traceKeyLength)
	rand.Read(fresh)
	if err := keepTraceKey(ctx, s.conn, fresh); err != nil {
		return nil, classify(err)
	}
	// Another process may have been first.
	key, err = storedTraceKey(ctx, s.conn)
	return key, classify(err)
}

// Commit implements [recorder.Store].
func (s *Store) Commit(ctx context.Context, batch *recorder.Batch) error {
	if err := s.usable(); err != nil {
		return err
	}
	if err := s.finishCheckpoint(ctx); err != nil {
		return classify(err)
	}
	if err := setDurable(s.writer.once, &s.writer.durable, batch.Durable()); err != nil {
		return classify(err)
	}
	s.written.Store(true)
	err := s.shared.transact(s.writer.repeat, func() error {
		if err := s.insert.batch(batch); err != nil {
			return err
		}
		for _, r := range batch.Revisions {
			if err := s.keepRevision(r); err != nil {
				return err
			}
		}
		if s.unswept > sweepBytes {
			if err := s.sweep(); err != nil {
				return err
			}
		}
		for _, r := range batch.Refusals {
			if err := keepRefusal(s.writer, r); err != nil {
				return err
			}
		}
		for i := range batch.Peaks {
			if err := keepPeak(s.writer, &batch.Peaks[i]); err != nil {
				return err
			}
		}
		for _, e := range batch.Experiments {
			if err := keepPlans(s.writer, e); err != nil {
				return err
			}
		}
		if len(batch.Counts) > 0 {
			if err := keepCounts(s.writer, batch.Counts); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	return classify(err)
}

// usable fails if rows that are written now would not be found later.
func (s *Store) usable() error {
	if err := s.shared.damaged(s.file); err != nil {
		return classify(err)
	}
	return sameFile(s.path, s.file)
}

// sameFile fails with recorder.ErrReplaced if the file at the path is not the one that was
// opened. Commits to a file that was deleted or moved succeed, and are lost.
func sameFile(path string, opened os.FileInfo) error {
	if info, err := os.Stat(path); err != nil || !os.SameFile(info, opened) {
		return errors.Join(fmt.Errorf("%w: %s was moved or deleted", recorder.ErrReplaced, path), err)
	}
	return nil
}

// runner runs a statement without parameters on some connection.
type runner func(text string) error

// maintains returns the runner of the connection that maintains the file. It ignores the
// end of ctx: a transaction that began must end.
func (s *Store) maintains(ctx context.Context) runner {
	return func(text string) error {
		_, err := s.conn.ExecContext(context.WithoutCancel(ctx), text)
		return err
	}
}

// setDurable sets whether the commits of a connection are synced. SQLite accepts it only
// outside of a transaction, and when it prepares the statement.
// https://www.sqlite.org/pragma.html#pragma_synchronous
func setDurable(run runner, current *bool, durable bool) error {
	if *current == durable {
		return nil
	}
	level := "NORMAL"
	if durable {
		level = "FULL"
	}
	if err := run("PRAGMA synchronous = " + level); err != nil {
		return err
	}
	*current = durable
	return nil
}

// transact runs work in a transaction of run's connection. A transaction of database/sql
// would cost a goroutine.
func (s *shared) transact(run runner, work func() error) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	if err := run("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	committed := false
	defer func() { // also when work panics: the lock must not stay
		if !committed {
			// SQLite may have rolled back already, as it does on a full disk.
			_ = run("ROLLBACK")
		}
	}()
	if err := work(); err != nil {
		return err
	}
	if err := run("COMMIT"); err != nil {
		return err
	}
	committed = true
	return nil
}

// transactInTurn runs work in a transaction of a connection other than the Store's, while
// it holds turn.
func transactInTurn(ctx context.Context, db beginner, turn *sync.Mutex, work func(*sql.Tx) error) error {
	turn.Lock()
	defer turn.Unlock()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := work(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// beginner is a connection, or a pool of one.
type beginner interface {
	BeginTx(ctx context.Context, options *sql.TxOptions) (*sql.Tx, error)
}
